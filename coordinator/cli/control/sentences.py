"""What a daemon says no with, in lines for a person."""

from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.control.failure import Refused
from coordinator.net.peer import printable

_MAX_LINE: Final = 10_000
_TITLED: Final = ("urn:groupd:not-met",)
"""What these say is whole with the title only: what was asked for, and how long it was waited for."""
_NEEDS_TOKEN: Final = (401,)


def sentences(refused: Refused) -> Iterator[str]:
    """The sentence, then what else helps, each on a line of its own."""
    problem = refused.problem
    title, detail = _text(problem.get("title")), _text(problem.get("detail"))
    if problem.get("type") in _TITLED and title and detail:
        yield f"{title}: {detail}"
    else:
        yield detail or title or str(refused)
    if refused.status in _NEEDS_TOKEN:
        yield "  hint: --token or GROUPD_TOKEN says what the daemon has as control.token"
    for hint in _texts(problem.get("hints")):
        yield f"  hint: {hint}"
    for candidate in _texts(problem.get("candidates")):
        yield f"  candidate: {candidate}"


def _text(value: Any) -> str:
    return printable(value, _MAX_LINE) if isinstance(value, str) else ""


def _texts(values: Any) -> list[str]:
    return [text for value in values if (text := _text(value))] if isinstance(values, list) else []
