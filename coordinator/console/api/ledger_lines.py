"""The ledger as JSON lines: `/ledger.jsonl`, `/groups/{group}/ledger.jsonl`."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.console.api.ledger import known
from coordinator.console.api.route import Call, Pieces, StreamRoute
from coordinator.control.control import Control
from coordinator.control.problem import ProblemKind
from coordinator.control.stream.event_number import number_after

_LINES: Final = "application/x-ndjson"


class LedgerLinesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries whose `seq` is higher than `after`: 431, or "5f3a9c1e.431" with the mark of the process."""

    after: str = "-1"


async def ledger_lines(control: Control, call: Call) -> Pieces:
    """Every entry that is closed, one a line, oldest first. Raises Problem."""
    group_id = call.path.get("group")
    if group_id is not None:
        known(control, group_id)
    return _pieces(control.ledger.lines(group_id, number_after(control.stream, call.query.after)))


async def _pieces(lines: Iterable[bytes]) -> Pieces:
    for line in lines:
        yield line


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/ledger.jsonl",
        summary="Why groups rebalanced, one entry a line",
        open=ledger_lines,
        content_type=_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
        problems=(ProblemKind.RESTARTED,),
    ),
    StreamRoute(
        path="/groups/{group}/ledger.jsonl",
        summary="Why a group rebalanced, one entry a line",
        open=ledger_lines,
        content_type=_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING, ProblemKind.RESTARTED),
    ),
)
