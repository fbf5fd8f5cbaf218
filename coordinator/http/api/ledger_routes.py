"""API routes for the rebalance ledger of one group and of all groups, as JSON, text and JSON lines."""

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from coordinator.control.control_plane import ControlPlane
from coordinator.control.event_stream import resolve_event_number
from coordinator.control.group_removals import GroupRemoval, why_absent
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.ledger.ledger_text import format_entries
from coordinator.control.problem import ProblemKind
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute, Chunks, StreamRoute

MAX_ENTRIES: Final = 1_000


class LedgerQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The selected entries: the oldest `limit` ones with a `seq` above `after`, or the `last` ones. An `after`
    with a mark ("5f3a9c1e.431") is refused by any other process."""

    after: str = "-1"
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = 100
    last: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] | None = None


@wire_name("LedgerAnswer")
class LedgerAnswer(Struct, frozen=True, kw_only=True):
    """Entries, oldest first, open ones at the end. Set `after` to `next`, or to "`mark`.`next`", to get the
    entries that are closed later. `mark` identifies the process; each process starts its own numbers. `removed`
    is the removal of the group, null if the group exists or the request is for all groups."""

    entries: list[LedgerEntry]
    next: int
    mark: str
    removed: GroupRemoval | None = None


async def show_group_ledger(control: ControlPlane, call: ApiCall) -> LedgerAnswer:
    """Return the ledger of the group."""
    group_id = call.path["group"]
    check_known_group(control, group_id)
    answer = _read_entries(control, group_id, call.query)
    machine = control.services.runtime.find_partition(group_id).machine
    is_absent = machine is not None and machine.summarize_group(group_id) is None
    return structs.replace(answer, removed=control.group_removals.find(group_id)) if is_absent else answer


async def show_ledger(control: ControlPlane, call: ApiCall) -> LedgerAnswer:
    """Return the ledger of all groups."""
    return _read_entries(control, None, call.query)


def check_known_group(control: ControlPlane, group_id: str) -> None:
    """Check that the ledger or the coordinator knows a group.

    Raises Problem (no-such-group), and Problem (loading) while the group may be loading.
    """
    if control.ledger.has_entries(group_id):
        return
    machine = control.group_client.find_partition(group_id).machine
    if machine is None or machine.view_group(group_id, control.clocks.group_now(group_id)) is None:
        raise control.group_removals.no_such_group(group_id)


def _read_entries(control: ControlPlane, group_id: str | None, query: LedgerQuery) -> LedgerAnswer:
    after = resolve_event_number(control.stream, query.after)
    entries = control.ledger.list_entries(group_id, after, query.limit, last=query.last)
    closed = [entry.seq for entry in entries if entry.real is not None]
    return LedgerAnswer(entries=entries, next=max([after, *closed]), mark=control.stream.instance)


def _format_group_ledger(answer: LedgerAnswer) -> str:
    text = format_entries(answer.entries)
    if answer.removed is not None:
        text += f"The group does not exist: {why_absent(answer.removed)}.\n"
    return text


def _format_ledger(answer: LedgerAnswer) -> str:
    return format_entries(answer.entries, with_group=True)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups/{group}/ledger",
        summary="The rebalances of a group and their causes.",
        command="ledger",
        handle=show_group_ledger,
        query=LedgerQuery,
        answer=LedgerAnswer,
        text=_format_group_ledger,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING, ProblemKind.RESTARTED),
    ),
    ApiRoute(
        method="GET",
        path="/ledger",
        summary="The rebalances of all groups, in the order in which they ended.",
        command="ledger",
        handle=show_ledger,
        query=LedgerQuery,
        answer=LedgerAnswer,
        text=_format_ledger,
        problems=(ProblemKind.RESTARTED,),
    ),
)

_JSON_LINES: Final = "application/x-ndjson"


class LedgerLinesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries with a `seq` above `after`: 431, or "5f3a9c1e.431" with the mark of the process."""

    after: str = "-1"


async def stream_ledger(control: ControlPlane, call: ApiCall) -> Chunks:
    """Stream the closed entries of the ledger as JSON lines, oldest first.

    Raises:
        Problem: no-such-group, loading, restarted.
    """
    group_id = call.path.get("group")
    if group_id is not None:
        check_known_group(control, group_id)
    return _iterate_lines(
        control.ledger.list_lines(group_id, resolve_event_number(control.stream, call.query.after))
    )


async def _iterate_lines(lines: Iterable[bytes]) -> Chunks:
    for line in lines:
        yield line


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/ledger.jsonl",
        summary="Rebalances of all groups and their causes, one entry per line",
        open_stream=stream_ledger,
        content_type=_JSON_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
        problems=(ProblemKind.RESTARTED,),
    ),
    StreamRoute(
        path="/groups/{group}/ledger.jsonl",
        summary="Rebalances of a group and their causes, one entry per line",
        open_stream=stream_ledger,
        content_type=_JSON_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING, ProblemKind.RESTARTED),
    ),
)
