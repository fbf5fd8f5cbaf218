"""/v1/groups/{group}/failover and /v1/offsets-partitions/{number}/failover: the coordinator moves."""

from typing import Final

from msgspec import Struct

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.duration import duration_ms
from coordinator.control.failover.failover import FailoverAnswer, GroupAfter
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable

MOST_SHOWN: Final = 10
"""Groups that the text names."""


class FailoverBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long whoever asks is told NOT_COORDINATOR, and then COORDINATOR_LOAD_IN_PROGRESS. `to`: the node
    id of the broker that coordinates it then; None for the one that does now."""

    not_coordinator: int | str = 0
    loading: int | str = 0
    to: int | None = None


class GroupFailoverBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, and for how long at most the answer waits for the members to be back."""

    not_coordinator: int | str = 0
    loading: int | str = 0
    to: int | None = None
    settle: int | str = "5s"


async def fail_over_group(control: Control, call: Call) -> FailoverAnswer:
    """Moves the offsets partition of a group."""
    body = call.body
    return await control.failover.group(
        call.path["group"],
        duration_ms(body.not_coordinator, "not_coordinator"),
        duration_ms(body.loading, "loading"),
        duration_ms(body.settle, "settle"),
        call.actor,
        body.to,
    )


async def fail_over_partition(control: Control, call: Call) -> FailoverAnswer:
    """Moves an offsets partition."""
    text = call.path["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        detail = f"{printable(text)!r} is no number of an offsets partition."
        raise Problem(ProblemKind.BAD_REQUEST, "no number", detail)
    body = call.body
    return await control.failover.partition(
        int(text),
        duration_ms(body.not_coordinator, "not_coordinator"),
        duration_ms(body.loading, "loading"),
        call.actor,
        body.to,
    )


def failover_text(answer: FailoverAnswer) -> str:
    """What moved, and what became of the group that was asked for."""
    named = ", ".join(map(printable, answer.groups[:MOST_SHOWN]))
    if answer.group_count > MOST_SHOWN:
        named += f" and {answer.group_count - MOST_SHOWN} more"
    with_it = f", with it {_counted(answer.group_count, 'group')} ({named})" if named else ", without a group"
    text = f"{answer.partition} moves{with_it}. Served again after {answer.served_after_ms / 1000:.2f} s."
    return text if answer.group is None else f"{text} {_group_text(answer.group)}"


def _group_text(group: GroupAfter) -> str:
    generation = f"generation {group.generation_id} {'kept' if group.generation_kept else 'is new'}"
    return (
        f"{printable(group.group_id)}: {group.state}, {generation}, {group.members_back} of {group.members} "
        f"members back, {_counted(group.rebalances, 'rebalance')}"
    )


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


_PROBLEMS: Final = (ProblemKind.LOADING, ProblemKind.NOT_POSSIBLE)
ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/groups/{group}/failover",
        summary="Move the coordinator of a group, and of all groups of its offsets partition",
        handle=fail_over_group,
        body=GroupFailoverBody,
        answer=FailoverAnswer,
        text=failover_text,
        changes=True,
        lasts=True,
        problems=(*_PROBLEMS, ProblemKind.NO_SUCH_GROUP),
    ),
    ApiRoute(
        method="POST",
        path="/offsets-partitions/{number}/failover",
        summary="Move the coordinator of all groups of an offsets partition",
        handle=fail_over_partition,
        body=FailoverBody,
        answer=FailoverAnswer,
        text=failover_text,
        changes=True,
        lasts=True,
        problems=_PROBLEMS,
    ),
)
