"""The appended batches of a log on their way to a replication engine, and the engine's confirmations.

The segments of a replicated log are a copy and are not synced: *durable* means that the engine has the bytes.
Appended batches are queued until a submission takes them. Submissions are numbered from 1. A confirmed
submission proves two facts: the engine has everything that was appended before the submission, and the owner
of the log owned it after that. So a response from before a submission may leave when the submission is
confirmed.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_PIECE_BYTES: Final = 1 << 20
"""The maximum size of a piece in bytes, unless a batch alone is larger. Engines limit the size of a request."""


class ReplicationPiece(NamedTuple):
    """Record batches as they are in a segment, from `base_offset` on, before `next_offset`."""

    base_offset: int
    next_offset: int
    data: bytes


class ReplicationQueue:
    """The appends of one log that are on their way to an engine. All methods belong to the thread that owns
    the log."""

    __slots__ = (
        "_submitted",
        "_unsubmitted",
        "last_confirmed",
        "next_submission",
        "ownership_token",
        "unconfirmed_bytes",
    )

    def __init__(self, token: int) -> None:
        """Create a queue. `token` proves the ownership of the log while this is its `ReplicationQueue`."""
        self.ownership_token = token
        self.next_submission = 1
        """The number of the next submission."""
        self.last_confirmed = 0
        """The number of the last confirmed submission."""
        self.unconfirmed_bytes = 0
        """Bytes that are not confirmed."""
        self._unsubmitted: list[tuple[int, bytes]] = []
        """Batches that no submission has, each with its base offset."""
        self._submitted: deque[tuple[int, int]] = deque()
        """Unconfirmed submissions: number and size in bytes."""

    def add_batch(self, data: bytes, base_offset: int) -> None:
        """Queue a batch that the log has appended."""
        self._unsubmitted.append((base_offset, data))
        self.unconfirmed_bytes += len(data)

    def take_submission(self, log_end_offset: int) -> tuple[int, Sequence[ReplicationPiece]]:
        """Begin a submission. Return its number and its pieces, which are empty without new records."""
        number = self.next_submission
        self.next_submission += 1
        new, self._unsubmitted = self._unsubmitted, []
        if not new:
            return number, ()
        self._submitted.append((number, sum(len(data) for _, data in new)))
        return number, _join_pieces(new, log_end_offset)

    def confirm_submission(self, number: int) -> None:
        """Record that a submission, and all before it, are confirmed."""
        assert self.last_confirmed < number < self.next_submission, (
            self.last_confirmed,
            number,
            self.next_submission,
        )
        self.last_confirmed = number
        while self._submitted and self._submitted[0][0] <= number:
            self.unconfirmed_bytes -= self._submitted.popleft()[1]


def _join_pieces(new: Sequence[tuple[int, bytes]], end_offset: int) -> Sequence[ReplicationPiece]:
    """Join adjacent batches into pieces of at most `MAX_PIECE_BYTES`."""
    pieces: list[ReplicationPiece] = []
    batches: list[bytes] = []
    first_offset, size = new[0][0], 0
    for base_offset, data in new:
        if batches and size + len(data) > MAX_PIECE_BYTES:
            pieces.append(ReplicationPiece(first_offset, base_offset, b"".join(batches)))
            batches, first_offset, size = [], base_offset, 0
        batches.append(data)
        size += len(data)
    pieces.append(ReplicationPiece(first_offset, end_offset, b"".join(batches)))
    assert all(piece.base_offset < piece.next_offset for piece in pieces), [piece[:2] for piece in pieces]
    return pieces
