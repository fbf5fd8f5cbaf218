"""What a partition remembers of idempotent producers, so that a batch sent twice is stored once.

Each producer numbers its records per partition. Of every producer the last five batches are kept (a client
has at most five in flight): a batch with exactly the sequence range of one of them is a *duplicate* and is
answered with the offsets it was given the first time. Any other must follow the last one without a gap, or
begin at 0 with a higher epoch. A producer that is not known (never seen, expired, or its records deleted)
may begin anywhere.

Pure: no clock, no I/O. Rebuilt from batch headers when a log is opened.

Source: KIP-98, KIP-360, Kafka's `ProducerStateManager` and `ProducerAppendInfo`.
"""

from collections import deque
from typing import Final, NamedTuple

from storage.batch import BatchHeader

BATCHES_KEPT: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
NO_EPOCH: Final = -1


class OutOfOrderSequence(Exception):
    """A batch that does not follow what the partition has of its producer: something was lost or
    came late.
    """


class InvalidProducerEpoch(Exception):
    """A batch of a producer that a newer incarnation has replaced."""


class SequencedBatch(NamedTuple):
    """One batch of a producer as the partition remembers it; the time is the batch's greatest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """The current epoch of one producer and its last batches in that epoch, oldest first."""

    __slots__ = ("batches", "epoch", "last_timestamp_ms")

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.batches: deque[SequencedBatch] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = -1


class ProducerState:
    """All producers of one partition."""

    __slots__ = ("_entries", "_expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        """`expiration_ms`: after how long without a batch a producer is forgotten."""
        self._entries: dict[int, ProducerEntry] = {}
        self._expiration_ms = expiration_ms

    def __len__(self) -> int:
        return len(self._entries)

    def duplicate_of(self, header: BatchHeader) -> SequencedBatch | None:
        """The batch that this one repeats, None when it repeats none that is remembered."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """Whether a batch that is no duplicate may follow. Raises InvalidProducerEpoch,
        OutOfOrderSequence.
        """
        entry = self._entries.get(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        known_epoch = NO_EPOCH if entry is None else entry.epoch
        if epoch < known_epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {known_epoch} now, this batch is of epoch {epoch}"
            )
        if entry is None:
            return
        if epoch != entry.epoch:
            if sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins epoch {epoch} with sequence {sequence}, not with 0"
                )
            return
        last = entry.batches[-1].last_sequence
        due = 0 if last == MAX_SEQUENCE else last + 1
        if sequence != due:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sends sequence {sequence} where {due} is due"
            )

    def record(self, header: BatchHeader, first_offset: int, timestamp_ms: int) -> None:
        """Takes up a batch that is in the log, live or found on load; its offsets, its greatest timestamp."""
        if header.producer_id < 0 or header.is_control:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry()
        if entry.epoch != header.producer_epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        last_offset = first_offset + header.last_offset_delta
        entry.batches.append(
            SequencedBatch(
                header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp_ms
            )
        )
        entry.last_timestamp_ms = timestamp_ms

    def is_last(self, producer_id: int, last_offset: int) -> bool:
        """Whether the last batch that is known of a producer ends at an offset."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.batches[-1].last_offset == last_offset

    def expire(self, now_ms: int) -> int:
        """Forgets producers whose last batch is too old by the wall clock; how many they were."""
        limit = now_ms - self._expiration_ms
        gone = [key for key, entry in self._entries.items() if entry.last_timestamp_ms <= limit]
        for key in gone:
            del self._entries[key]
        return len(gone)
