"""What an engine that replicates a log has still to get of it, and how far that is known to have gone.

Where a log has one, its segments are a copy, which nobody syncs: *durable* means that the engine has the bytes.
What is appended gathers here until it is taken for a submission. Submissions have numbers, counted up from 1. One
that is confirmed says two things: the engine has all that was appended before it was made, and whoever owns the log
owned it at a moment after that. So an answer that was made before a submission may leave when that is confirmed.
"""

from typing import NamedTuple


class Bytes(NamedTuple):
    """Record batches as they are in a segment, from `base_offset` on, before `next_offset`."""

    base_offset: int
    next_offset: int
    data: bytes


class Outgoing:
    """Of one log. All methods belong to the thread that owns the log."""

    __slots__ = ("_base_offset", "_data", "confirmed", "size", "submission", "token")

    def __init__(self, token: int) -> None:
        """In: what proves the ownership of the log, for as long as this is its `Outgoing`."""
        self.token = token
        self.submission = 1
        """The number of the next one."""
        self.confirmed = 0
        """The number of the last one that is."""
        self.size = 0
        """Bytes that wait."""
        self._base_offset = 0
        self._data: list[bytes] = []

    def appended(self, data: bytes, base_offset: int) -> None:
        """Takes what the log has appended."""
        if not self._data:
            self._base_offset = base_offset
        self._data.append(data)
        self.size += len(data)

    def take(self, log_end_offset: int) -> tuple[int, Bytes | None]:
        """The number of a submission that begins now, and what it has to bring: None where nothing is new."""
        number = self.submission
        self.submission += 1
        if not self._data:
            return number, None
        taken = Bytes(self._base_offset, log_end_offset, b"".join(self._data))
        assert taken.base_offset < taken.next_offset, taken[:2]
        self._data, self.size = [], 0
        return number, taken

    def confirm(self, number: int) -> None:
        """A submission is confirmed, and all before it."""
        assert self.confirmed < number < self.submission, (self.confirmed, number, self.submission)
        self.confirmed = number
