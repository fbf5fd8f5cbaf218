"""What an engine that replicates a log has still to get of it, and how far that is known to have gone.

Where a log has one, its segments are a copy, which nobody syncs: *durable* means that the engine has the bytes.
What is appended gathers here until it is taken for a submission. Submissions have numbers, counted up from 1. One
that is confirmed says two things: the engine has all that was appended before it was made, and whoever owns the log
owned it at a moment after that. So an answer that was made before a submission may leave when that is confirmed.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

MOST_BYTES: Final = 1 << 20
"""In one piece, unless a batch alone is larger: engines bound what a request may have."""


class Bytes(NamedTuple):
    """Record batches as they are in a segment, from `base_offset` on, before `next_offset`."""

    base_offset: int
    next_offset: int
    data: bytes


class Outgoing:
    """Of one log. All methods belong to the thread that owns the log."""

    __slots__ = ("_new", "_underway", "confirmed", "size", "submission", "token")

    def __init__(self, token: int) -> None:
        """In: what proves the ownership of the log, for as long as this is its `Outgoing`."""
        self.token = token
        self.submission = 1
        """The number of the next one."""
        self.confirmed = 0
        """The number of the last one that is."""
        self.size = 0
        """Bytes that are not confirmed."""
        self._new: list[tuple[int, bytes]] = []
        """With the offset at which they begin."""
        self._underway: deque[tuple[int, int]] = deque()
        """Submissions with how many bytes they have."""

    def appended(self, data: bytes, base_offset: int) -> None:
        """Takes what the log has appended."""
        self._new.append((base_offset, data))
        self.size += len(data)

    def take(self, log_end_offset: int) -> tuple[int, Sequence[Bytes]]:
        """The number of a submission that begins now, and what it has to bring, in pieces: none where nothing is
        new."""
        number = self.submission
        self.submission += 1
        new, self._new = self._new, []
        if not new:
            return number, ()
        self._underway.append((number, sum(len(data) for _, data in new)))
        return number, _pieces(new, log_end_offset)

    def confirm(self, number: int) -> None:
        """A submission is confirmed, and all before it."""
        assert self.confirmed < number < self.submission, (self.confirmed, number, self.submission)
        self.confirmed = number
        while self._underway and self._underway[0][0] <= number:
            self.size -= self._underway.popleft()[1]


def _pieces(new: Sequence[tuple[int, bytes]], end_offset: int) -> Sequence[Bytes]:
    """Neighbours together, as many as fit."""
    pieces: list[Bytes] = []
    batches: list[bytes] = []
    first_offset, size = new[0][0], 0
    for base_offset, data in new:
        if batches and size + len(data) > MOST_BYTES:
            pieces.append(Bytes(first_offset, base_offset, b"".join(batches)))
            batches, first_offset, size = [], base_offset, 0
        batches.append(data)
        size += len(data)
    pieces.append(Bytes(first_offset, end_offset, b"".join(batches)))
    assert all(piece.base_offset < piece.next_offset for piece in pieces), [piece[:2] for piece in pieces]
    return pieces
