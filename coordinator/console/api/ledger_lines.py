"""The ledger as JSON lines: `/ledger.jsonl`, `/groups/{group}/ledger.jsonl`."""

from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta, Struct

from coordinator.console.api.route import Call, Pieces, StreamRoute
from coordinator.control.control import Control
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.problem import Problem, ProblemKind

_AT_ONCE: Final = 200
_LINES: Final = "application/x-ndjson"


class KeepsEntries(Protocol):
    """What the lines are made of."""

    def entries(self, group_id: str | None, after: int = -1, limit: int = 100) -> list[LedgerEntry]:
        """Entries of one group or all with a later number, oldest first, open ones last."""


class LedgerLinesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: only entries with a later number."""

    after: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1


async def ledger_lines(control: Control, call: Call) -> Pieces:
    """Every entry, one a line, oldest first."""
    ledger: KeepsEntries | None = getattr(control, "ledger", None)
    if ledger is None:
        raise Problem(ProblemKind.NOT_POSSIBLE, "There is no ledger", "No ledger is kept here.")
    return _lines(ledger, call.path.get("group"), call.query.after)


async def _lines(ledger: KeepsEntries, group_id: str | None, after: int) -> Pieces:
    while True:
        entries = ledger.entries(group_id, after, _AT_ONCE)
        if entries:
            yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        if len(entries) < _AT_ONCE:
            return
        after = entries[-1].seq


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/ledger.jsonl",
        summary="Why groups rebalanced, one entry a line",
        open=ledger_lines,
        content_type=_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
    ),
    StreamRoute(
        path="/groups/{group}/ledger.jsonl",
        summary="Why a group rebalanced, one entry a line",
        open=ledger_lines,
        content_type=_LINES,
        is_endless=False,
        query=LedgerLinesQuery,
    ),
)
