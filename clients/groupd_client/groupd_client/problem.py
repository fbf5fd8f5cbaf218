"""Exceptions of this package, with texts that a test report can print as they are, and the cleanup of `with`
blocks, which never replaces the error of the block.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from groupd_client.suggested_calls import format_call
from groupd_client.value import as_value


class GroupdError(Exception):
    """The base class of all exceptions of this package."""


class Unreachable(GroupdError):
    """The URL is not a running groupd of a compatible version."""


class Problem(GroupdError):
    """groupd refused a request (RFC 9457). `kind` is the name of the problem ("not-met", "name-taken", ...),
    `detail` its sentence. `fields` has further fields, such as `pointer`, `candidates` or `hints`."""

    def __init__(self, kind: str, status: int, title: str, detail: str, fields: Mapping[str, Any]) -> None:
        hints = [str(hint) for hint in fields.get("hints") or ()]
        actions = fields.get("actions")
        calls = [format_call(action) for action in actions] if isinstance(actions, list) else []
        lines = [
            detail or title,
            *(f"hint: {hint}" for hint in hints),
            *(f"try: {call}" for call in calls if call),
        ]
        super().__init__("\n  ".join(lines))
        self.kind: Final = kind
        self.status: Final = status
        self.title: Final = title
        self.detail: Final = detail
        self.fields: Final = as_value(dict(fields))


class NotMet(Problem, AssertionError):
    """A group does not meet the conditions; in a test this is a failed assertion."""


class BadRequest(Problem):
    """A request is invalid; `fields.pointer` has the location."""


class ClockStopped(Problem):
    """The clock of a group stopped because a connected member still has to act, for example to rejoin."""


class ControlOff(Problem):
    """Changes over this port are off, or need the token."""


class NameTaken(Problem):
    """The name is already in use."""


class NoSuchGroup(Problem):
    """The group does not exist."""


class NoSuchMember(Problem):
    """The group has no such member."""


class NoSuchNamespace(Problem):
    """The namespace does not exist: it was removed, was idle for too long, or belonged to an earlier daemon."""


_BY_KIND: Final[Mapping[str, type[Problem]]] = {
    "not-met": NotMet,
    "bad-request": BadRequest,
    "clock-stopped": ClockStopped,
    "control-off": ControlOff,
    "bad-token": ControlOff,
    "name-taken": NameTaken,
    "no-such-group": NoSuchGroup,
    "no-such-member": NoSuchMember,
    "ambiguous-member": NoSuchMember,
    "no-such-namespace": NoSuchNamespace,
}


def create_problem(status: int, document: Mapping[str, Any]) -> Problem:
    """Create the exception for a document of problem+json."""
    kind = str(document.get("type", "")).removeprefix("urn:groupd:")
    title, detail = (str(document.get(name, "")) for name in ("title", "detail"))
    fields = {
        name: value for name, value in document.items() if name not in ("type", "status", "title", "detail")
    }
    return _BY_KIND.get(kind, Problem)(kind, status, title, detail, fields)


@contextmanager
def note_cleanup_error(block_error: BaseException | None, what: str) -> Iterator[None]:
    """Run the cleanup of a block.

    If `block_error` already ends the block, a GroupdError of the cleanup becomes a note on it; otherwise it is
    raised. `what` names the cleanup in the note.
    """
    try:
        yield
    except GroupdError as error:
        if block_error is None:
            raise
        block_error.add_note(f"{what} failed as well: {error}")
