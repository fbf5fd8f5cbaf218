"""Errors of commands that call a daemon or a broker, and the lines that explain a daemon's problem document
(RFC 9457).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coordinator.core.message_text import printable
from protocol.error_codes import ErrorCode

_MAX_MESSAGE: Final = 500


class ServerUnreachable(Exception):
    """No groupd answers at the URL, or one that does not know the operation. The message includes the remedy."""


class InvalidArguments(Exception):
    """A value on the command line is invalid. The message names it and the accepted form."""


class DaemonError(Exception):
    """The daemon refused a request. `problem` is the body of its response (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        texts = [problem.get(field) for field in ("detail", "title")]
        super().__init__(next((text for text in texts if isinstance(text, str)), f"HTTP status {status}"))
        self.status = status
        self.problem = problem


class BrokerError(Exception):
    """The broker refused a request, with this error and message."""

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
"""The types of problems with a message that needs the title: the conditions and the duration of a wait."""
_TOKEN_STATUSES: Final = (401,)


def format_daemon_error(error: DaemonError) -> Iterator[str]:
    """Yield the message of an error, then its hints, one line each."""
    problem = error.problem
    title, detail = _read_text(problem.get("title")), _read_text(problem.get("detail"))
    if problem.get("type") in _TITLED_TYPES and title and detail:
        yield f"{title}: {detail}"
    else:
        yield detail or title or str(error)
    if error.status in _TOKEN_STATUSES:
        yield "  hint: set --token or GROUPD_TOKEN to the control.token of the daemon"
    for hint in _read_texts(problem.get("hints")):
        yield f"  hint: {hint}"
    for candidate in _read_texts(problem.get("candidates")):
        yield f"  candidate: {candidate}"


def _read_text(value: Any) -> str:
    return printable(value, _MAX_LINE) if isinstance(value, str) else ""


def _read_texts(values: Any) -> list[str]:
    return [text for value in values if (text := _read_text(value))] if isinstance(values, list) else []
