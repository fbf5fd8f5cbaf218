"""Why groups rebalanced: the entries of the ledger, for one group and for all."""

from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.group_removals import GroupRemoval, why_absent
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.ledger.text import entries_text
from coordinator.control.problem import ProblemKind
from coordinator.control.stream.event_number import number_after

MOST_ENTRIES: Final = 1_000


class LedgerQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries whose `seq` is higher than `after`, the oldest `limit` of them; or the `last` so many. With the mark
    of the process before the number ("5f3a9c1e.431") it is sure that it is not another one's."""

    after: str = "-1"
    limit: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] = 100
    last: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] | None = None


class LedgerAnswer(Struct, frozen=True, kw_only=True):
    """Entries, oldest first, open ones at the end. Ask again with `after` set to `next`, or to "`mark`.`next`", for
    those that are closed from then on; `mark` is that of the process, with which numbers begin anew. `removed` is
    the removal of the group, null where it exists or all groups are asked for."""

    entries: list[LedgerEntry]
    next: int
    mark: str
    removed: GroupRemoval | None = None


async def of_group(control: Control, call: Call) -> LedgerAnswer:
    """Answers GET /groups/{group}/ledger."""
    group_id = call.path["group"]
    known(control, group_id)
    answer = _answer(control, group_id, call.query)
    machine = control.server.runtime.partition_of(group_id).machine
    is_absent = machine is not None and machine.standing(group_id) is None
    return structs.replace(answer, removed=control.group_removals.find(group_id)) if is_absent else answer


async def of_all(control: Control, call: Call) -> LedgerAnswer:
    """Answers GET /ledger."""
    return _answer(control, None, call.query)


def known(control: Control, group_id: str) -> None:
    """Raises Problem (no-such-group) where neither the ledger nor the coordinator knows a group; Problem (loading)
    where that cannot be said."""
    if control.ledger.knows(group_id):
        return
    machine = control.asker.partition_of(group_id).machine
    if machine is None or machine.view(group_id, control.ledger.now_of(group_id)) is None:
        raise control.group_removals.no_such_group(group_id)


def _answer(control: Control, group_id: str | None, query: LedgerQuery) -> LedgerAnswer:
    after = number_after(control.stream, query.after)
    entries = control.ledger.entries(group_id, after, query.limit, last=query.last)
    closed = [entry.seq for entry in entries if entry.real is not None]
    return LedgerAnswer(entries=entries, next=max([after, *closed]), mark=control.stream.instance)


def _text(answer: LedgerAnswer) -> str:
    text = entries_text(answer.entries)
    if answer.removed is not None:
        text += f"The group does not exist: {why_absent(answer.removed)}.\n"
    return text


def _text_of_all(answer: LedgerAnswer) -> str:
    return entries_text(answer.entries, with_group=True)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups/{group}/ledger",
        summary="Why a group rebalanced: an entry for each time.",
        handle=of_group,
        query=LedgerQuery,
        answer=LedgerAnswer,
        text=_text,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING, ProblemKind.RESTARTED),
    ),
    ApiRoute(
        method="GET",
        path="/ledger",
        summary="The rebalances of all groups, in the order in which they ended.",
        handle=of_all,
        query=LedgerQuery,
        answer=LedgerAnswer,
        text=_text_of_all,
        problems=(ProblemKind.RESTARTED,),
    ),
)
