"""What the coordinator refused, in a sentence with Kafka's name for it."""

from typing import Final

from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from protocol.errors import ErrorCode

_MOST_NAMED: Final = 10


def refused(error: ErrorCode, what: str, view: GroupView | None) -> Problem:
    """In: Kafka's error; what did not come about, as the beginning of a sentence; the group as it is now."""
    why = ""
    if view is not None and view.members:
        names = [printable(member.name.client_id) for member in view.members[:_MOST_NAMED]]
        names += ["…"] if len(view.members) > _MOST_NAMED else []
        count = "1 member" if len(view.members) == 1 else f"{len(view.members)} members"
        why = f" It is {view.state} with {count} ({', '.join(names)}), and has to be Empty."
    state = None if view is None else view.state
    return Problem(
        ProblemKind.REFUSED, what, f"{what}: {error.name}.{why}", {"error": error.name, "state": state}
    )
