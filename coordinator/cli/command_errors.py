"""Errors of commands that call a daemon or a broker, and the lines that explain a daemon's problem document
(RFC 9457).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coordinator.core.message_text import printable
from protocol.error_codes import ErrorCode

_MAX_MESSAGE: Final = 500


class ServerUnreachable(Exception):
    """Nobody answers at that URL, or nobody that understands the question: one sentence, with what to do."""


class InvalidArguments(Exception):
    """A word on the command line makes no sense: one sentence."""


class DaemonError(Exception):
    """The daemon said no. `problem` is what it said (RFC 9457): `title`, `detail`, and more."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        texts = [problem.get(field) for field in ("detail", "title")]
        super().__init__(next((text for text in texts if isinstance(text, str)), f"HTTP status {status}"))
        self.status = status
        self.problem = problem


class BrokerError(Exception):
    """The broker said no: its error, and its words."""

    def __init__(self, error_code: int, message: str | None) -> None:
        try:
            name = ErrorCode(error_code).name
        except ValueError:
            name = f"error {error_code}"
        self.error_code = error_code
        self.message = message
        super().__init__(f"{name}: {printable(message, _MAX_MESSAGE)}" if message else name)


_MAX_LINE: Final = 10_000
_TITLED_TYPES: Final = ("urn:groupd:not-met",)
"""What these say is whole with the title only: what was asked for, and how long it was waited for."""
_TOKEN_STATUSES: Final = (401,)


def format_daemon_error(error: DaemonError) -> Iterator[str]:
    """The sentence, then what else helps, each on a line of its own."""
    problem = error.problem
    title, detail = _read_text(problem.get("title")), _read_text(problem.get("detail"))
    if problem.get("type") in _TITLED_TYPES and title and detail:
        yield f"{title}: {detail}"
    else:
        yield detail or title or str(error)
    if error.status in _TOKEN_STATUSES:
        yield "  hint: --token or GROUPD_TOKEN says what the daemon has as control.token"
    for hint in _read_texts(problem.get("hints")):
        yield f"  hint: {hint}"
    for candidate in _read_texts(problem.get("candidates")):
        yield f"  candidate: {candidate}"


def _read_text(value: Any) -> str:
    return printable(value, _MAX_LINE) if isinstance(value, str) else ""


def _read_texts(values: Any) -> list[str]:
    return [text for value in values if (text := _read_text(value))] if isinstance(values, list) else []
