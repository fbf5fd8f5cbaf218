"""Exceptions of this package, with texts that a test report can print as they are, and the cleanup of `with`
blocks, which never replaces the error of the block.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from groupd_client.value import as_value


class GroupdError(Exception):
    """Anything that this package raises."""


class Unreachable(GroupdError):
    """No groupd answers, or something else does, or one of a version that does not know what was asked."""


class Problem(GroupdError):
    """Groupd says no (RFC 9457). `kind` is the word of the API ("not-met", "name-taken", ...), `detail` the
    sentence, `fields` what else it says, such as `pointer`, `candidates` or `hints`."""

    def __init__(self, kind: str, status: int, title: str, detail: str, fields: Mapping[str, Any]) -> None:
        hints = [str(hint) for hint in fields.get("hints") or ()]
        super().__init__("\n  hint: ".join([detail or title, *hints]))
        self.kind: Final = kind
        self.status: Final = status
        self.title: Final = title
        self.detail: Final = detail
        self.fields: Final = as_value(dict(fields))


class NotMet(Problem, AssertionError):
    """A group is not as it should be; in a test that is a failed assertion."""


class BadRequest(Problem):
    """What was asked makes no sense; `fields.pointer` says where."""


class ClockStopped(Problem):
    """The clock of a group stopped before a member that is there and has not done its part."""


class ControlOff(Problem):
    """Nothing may be changed over this port, or not without the token."""


class NameTaken(Problem):
    """There is one of that name."""


class NoSuchGroup(Problem):
    """Nobody knows the group."""


class NoSuchMember(Problem):
    """The group has no such member."""


class NoSuchNamespace(Problem):
    """There is no such namespace: removed, idle for too long, or of a daemon before this one."""


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
    """The exception for a document of problem+json."""
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
