"""How long rebalances took, by phase."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from coordinator.control.ledger.entry import EntryResult, LedgerEntry, is_moved

DURATION_BOUNDS_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Upper bounds of the histogram's buckets; one more bucket follows for what is above."""
PHASES: Final = ("join", "sync", "total")
_BOUNDS_MS: Final = tuple(bound * 1000 for bound in DURATION_BOUNDS_S)


class Durations:
    """Of one phase: rebalances by bucket, and the sum of their times."""

    __slots__ = ("buckets", "sum_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_MS) + 1)
        self.sum_ms = 0

    def add(self, duration_ms: int) -> None:
        """Counts one."""
        self.buckets[bisect_left(_BOUNDS_MS, duration_ms)] += 1
        self.sum_ms += duration_ms

    def copy(self) -> "Durations":
        """As they are now."""
        copied = Durations()
        copied.buckets, copied.sum_ms = self.buckets.copy(), self.sum_ms
        return copied


def durations_ms(entry: LedgerEntry) -> Mapping[str, int] | None:
    """What a closed entry took, by phase; None of one that did not come to its own end. Where its group's clock was
    moved or stood still, it is what it took on the process's."""
    if entry.result not in (EntryResult.STABLE, EntryResult.EMPTY):
        return None
    real = entry.real
    source = entry if real is None or not is_moved(entry.total_ms, real) else real
    return {"join": source.join_ms, "sync": source.sync_ms, "total": source.total_ms}
