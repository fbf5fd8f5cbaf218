"""Batches with a producer in the log of a machine: records of transactions, and their end markers.

Two producer states follow these batches. The *expected* state records a batch at once, with its future offset,
so that the next requests are checked against it. The state of the log records the batch after its append, so
that a snapshot never has more than the log. If an append fails, the partition reloads and rebuilds both states.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.core.outcome import EncodedFact, TransactionMarker, TransactionOwner
from storage.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    encode_key_value_batch,
)
from storage.leader_epochs import LeaderEpochs
from storage.producers.end_transaction_marker import EndMarker, encode_marker
from storage.producers.producer_state import ProducerState
from storage.producers.producer_state_manager import ProducerStateManager

BASE_SEQUENCE: Final = 0
"""The base sequence of all batches. As in Kafka's coordinator, they have no sequence numbers."""


class AppendTarget(Protocol):
    """The part of a `PartitionLog` that an append uses. A fault replaces it to simulate a torn append."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next batch."""

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The leader epochs of the log."""

    def append_encoded(self, data: bytes, offset_count: int, latest_ms: int, /) -> bool:
        """Append an encoded batch. Return whether this rolled a segment. Raises StorageError, OSError."""


class ProducerBatch(NamedTuple):
    """A batch with a producer: the records of one outcome in a transaction, or its end marker."""

    header: BatchHeader
    """The producer, the number of records and their time. The offset is not known yet."""
    facts: Sequence[EncodedFact] = ()
    marker: EndMarker | None = None

    @classmethod
    def from_transaction(
        cls, facts: Sequence[EncodedFact], owner: TransactionOwner, wall_ms: int
    ) -> "ProducerBatch":
        """Create a batch from the records of a transaction."""
        return cls(
            build_transactional_header(owner.producer_id, owner.producer_epoch, len(facts), wall_ms), facts
        )

    @classmethod
    def from_marker(cls, marker: TransactionMarker, wall_ms: int) -> "ProducerBatch":
        """Create the control batch that ends a transaction."""
        header = build_transactional_header(marker.producer_id, marker.producer_epoch, 1, wall_ms)
        return cls(header, marker=EndMarker(marker.is_committed, marker.coordinator_epoch))

    def apply_to_expected(self, expected: ProducerState, offset: int) -> None:
        """Record the batch in the expected state, at its future offset."""
        header, timestamp_ms = self.header, self.header.max_timestamp_ms
        if self.marker is None:
            expected.record_batch(header, offset, timestamp_ms)
            return
        coordinator_epoch = self.marker.coordinator_epoch
        expected.record_marker(
            header.producer_id, header.producer_epoch, coordinator_epoch, offset, timestamp_ms
        )
        expected.find_last_stable_offset(offset)  # removes transactions that ended before

    def append(self, log: AppendTarget, producers: ProducerStateManager, codec: int) -> bool:
        """Encode the batch at the end of the log and write it.

        Return whether this rolled a segment. Raises StorageError, OSError.
        """
        header, timestamp_ms = self.header, self.header.max_timestamp_ms
        producer_id, producer_epoch = header.producer_id, header.producer_epoch
        base_offset, leader_epoch = log.log_end_offset, log.leader_epochs.current
        if self.marker is not None:
            data = encode_marker(
                self.marker, producer_id, producer_epoch, timestamp_ms, leader_epoch, base_offset
            )
            is_rolled = log.append_encoded(data, 1, timestamp_ms)
            producers.on_marker_appended(self.marker, producer_id, producer_epoch, base_offset, timestamp_ms)
            return is_rolled
        data = encode_key_value_batch(
            self.facts,
            timestamp_ms,
            base_offset,
            leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=BASE_SEQUENCE,
            attributes=TRANSACTIONAL | codec,
        )
        is_rolled = log.append_encoded(data, len(self.facts), timestamp_ms)
        producers.on_batch_appended(header, base_offset, timestamp_ms)
        return is_rolled


def build_transactional_header(
    producer_id: int, producer_epoch: int, records_count: int = 1, timestamp_ms: int = NO_TIMESTAMP
) -> BatchHeader:
    """Return a header with the fields that checks of a producer read, before the records are encoded."""
    return BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LOG_OVERHEAD,
        partition_leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL,
        last_offset_delta=records_count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=BASE_SEQUENCE,
        records_count=records_count,
    )
