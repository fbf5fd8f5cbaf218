"""Why one part of a request is refused."""

from protocol.errors import ErrorCode


class Refusal(Exception):
    """An error code for the response, and one sentence for the person who reads it (None where Kafka sends
    none).
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
