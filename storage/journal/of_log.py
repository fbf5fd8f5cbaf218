"""The journal as one log sees it: what goes there, and what of it the log needs."""

from typing import Final

from storage.journal.frame import Entry, LogKey
from storage.journal.journal import Journal

MOST_BYTES: Final = 256 * 1024
"""Of one log in one go. More of them are on the disk nearly as soon by a sync of the segment, and written once."""


class JournalOfLog:
    """Belongs to the thread that owns the log, but what says otherwise."""

    __slots__ = (
        "_base_offset",
        "_batches",
        "_bytes",
        "_is_left_out",
        "_joins_at",
        "journal",
        "key",
        "recovery_point",
        "settled_by",
    )

    def __init__(self, journal: Journal, key: LogKey) -> None:
        self.journal = journal
        self.key = key
        self._base_offset = -1
        self._batches: list[bytes] = []
        self._bytes = 0
        self._is_left_out = False
        self._joins_at = 0
        self.recovery_point = 0
        """How far the log is on record as synced."""
        self.settled_by: object = None
        """Who has the segments synced some time of what the journal got; None before it got anything."""

    def keeps_out_until(self, recovery_point: int) -> None:
        """Has segments synced until the log is on record as synced so far."""
        self._joins_at = recovery_point

    def recorded(self, recovery_point: int) -> None:
        """The log is on record as synced so far."""
        self.recovery_point = max(self.recovery_point, recovery_point)

    @property
    def is_kept_out(self) -> bool:
        """Whether it is not on record yet how far the log was synced when it was opened."""
        return self.recovery_point < self._joins_at

    def appended(self, data: bytes, base_offset: int) -> None:
        """A batch was written to the segment."""
        if self._is_left_out:
            return
        if not self._batches:
            self._base_offset = base_offset
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            self.leave_out()
        else:
            self._batches.append(data)

    def leave_out(self) -> None:
        """The journal does not have all of it, and need not get any: the segments are to be synced. Safe in any
        thread while nothing of the log is about to go there."""
        self._is_left_out = True
        self._batches = []

    def take(self, end_offset: int) -> Entry | None:
        """What is to go to the journal, up to where the log ends; None where segments have to be synced instead."""
        batches, self._batches, self._bytes = self._batches, [], 0
        is_left_out, self._is_left_out = self._is_left_out, False
        if is_left_out or self.is_kept_out or self.journal.is_off or not batches:
            return None
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        return Entry(self.key, self._base_offset, end_offset, data)

    def entries(self) -> list[Entry]:
        """What the journal keeps of the log, by offset. Safe in any thread; raises OSError."""
        return self.journal.entries_of(self.key)

    def settled(self, offset: int) -> None:
        """The segments are synced up to there. Safe in any thread."""
        self.journal.settled(self.key, offset)
