"""What a log tells whoever keeps files beside its segments."""

from collections.abc import Sequence
from typing import Protocol

from storage.segment import Segment
from storage.transaction_index import AbortedTransaction


class LogFollower(Protocol):
    """Who keeps files of its own beside the segments of a log, from what it knows of every batch."""

    def seal(self, segment: Segment, end_offset: int) -> None:
        """A segment, which ends there, is complete, or the log is about to be closed cleanly: writes what belongs
        to it. It is synced with the segment's indexes. Raises OSError."""

    def was_compacted(self, first_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """One segment has taken the place of those from one offset to another; which of the aborted transactions
        whose markers lie there its index still names."""
