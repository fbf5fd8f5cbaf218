"""How asking a broker ends that says no."""

from typing import Final

from coordinator.net.peer import printable
from protocol.errors import ErrorCode

_MOST_SAID: Final = 500


class BrokerRefused(Exception):
    """The broker said no: its error, and its words."""

    def __init__(self, error_code: int, message: str | None) -> None:
        try:
            name = ErrorCode(error_code).name
        except ValueError:
            name = f"error {error_code}"
        self.error_code = error_code
        self.message = message
        super().__init__(f"{name}: {printable(message, _MOST_SAID)}" if message else name)
