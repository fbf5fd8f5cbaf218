"""The state of one producer in one partition, and the row of bytes that it is packed into.

A row has the layout of an entry in a snapshot file (`snapshot.py`):

    id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64 |
    coordinator epoch int32 | first offset of the open transaction int64

-1 stands for a missing value. A row holds the last batch only, and one timestamp for both batch and producer.

Source: Kafka's `ProducerStateEntry`, `BatchMetadata`, `ProducerSnapshot.json`.
"""

from struct import Struct
from typing import Final, NamedTuple

BATCHES_KEPT: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
NO_EPOCH: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

ROW: Final = Struct(">qhiqiqiq")
_BATCH: Final = Struct(">iiqqq")
_NONE: Final = -1


class SequencedBatch(NamedTuple):
    """One batch of a producer as the partition remembers it; the time is the batch's greatest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """The current epoch of one producer, its last batches in that epoch, oldest first, and where its open
    transaction begins."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        """Of the last marker."""
        self.batches: tuple[SequencedBatch, ...] = ()
        self.last_timestamp_ms = -1
        self.transaction_offset: int | None = None

    def add_batch(self, batch: SequencedBatch) -> None:
        """Remember a batch, and forget the oldest one when there are more than `BATCHES_KEPT`."""
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)


def pack_row(producer_id: int, entry: ProducerEntry) -> bytes:
    """Return the row of a producer."""
    last = entry.batches[-1] if entry.batches else None
    return ROW.pack(
        producer_id,
        entry.epoch,
        _NONE if last is None else last.last_sequence,
        _NONE if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.first_offset,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        _NONE if entry.transaction_offset is None else entry.transaction_offset,
    )


def unpack_row(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    """Return the producer id and the entry of an unpacked row."""
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, first = fields
    entry = ProducerEntry()
    entry.epoch, entry.coordinator_epoch = epoch, coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    if last_offset >= 0:
        entry.batches = (_only_batch(last_sequence, last_offset, delta, timestamp_ms),)
    entry.transaction_offset = first if first >= 0 else None
    return producer_id, entry


def pack_batches(entry: ProducerEntry) -> bytes:
    """Return the batches of a producer; empty when its row alone restores them."""
    batches = entry.batches
    if not batches:
        return b""
    last = batches[-1]
    delta = last.last_offset - last.first_offset
    in_row = _only_batch(last.last_sequence, last.last_offset, delta, entry.last_timestamp_ms)
    if len(batches) == 1 and last == in_row and last.last_offset >= 0:
        return b""
    return b"".join([_BATCH.pack(*batch) for batch in batches])


def unpack_batches(data: bytes) -> tuple[SequencedBatch, ...]:
    """Return the batches that `pack_batches` packed."""
    return tuple(map(SequencedBatch._make, _BATCH.iter_unpack(data)))


def _only_batch(last_sequence: int, last_offset: int, delta: int, timestamp_ms: int) -> SequencedBatch:
    """Return the batch that a row tells of. Sequence numbers start again at 0 after `MAX_SEQUENCE`."""
    first_sequence = (last_sequence - delta) & MAX_SEQUENCE if last_sequence >= 0 else last_sequence
    return SequencedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)
