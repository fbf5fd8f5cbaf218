"""Batches that have a producer, on their way into the log of a machine: records of transactions, and the markers at
their ends.

Two states follow them. The *expected* one takes a batch up as it is kept for the end of the iteration, so that what
is asked next is checked against it; where the batch will lie is known by then. That of the log takes it up when it
is there: a snapshot of it says nothing that the log does not. Should a batch never come to lie there, the partition
is read again, and both are made anew.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from coordinator.machine.outcome import EncodedFact, InTransaction, Marker
from storage.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    encode_batch,
    read_header,
)
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.producers.marker import EndMarker, encode_marker
from storage.producers.producer_state import ProducerState
from storage.record import records_of

BASE_SEQUENCE: Final = 0
"""What Kafka's coordinator writes: its batches are not numbered, whether or not they have a producer."""


class ProducerBatch(NamedTuple):
    """One such batch, encoded; a marker says what it is."""

    data: bytes
    header: BatchHeader
    marker: EndMarker | None = None

    @classmethod
    def of_transaction(
        cls, facts: Iterable[EncodedFact], whose: InTransaction, codec: int, wall_ms: int
    ) -> "ProducerBatch":
        """Records of a transaction."""
        data = encode_batch(
            records_of(facts, wall_ms),
            producer_id=whose.producer_id,
            producer_epoch=whose.producer_epoch,
            base_sequence=BASE_SEQUENCE,
            is_transactional=True,
            codec=codec,
        )
        return cls(data, read_header(data))

    @classmethod
    def of_marker(cls, marker: Marker, wall_ms: int) -> "ProducerBatch":
        """The end of a transaction."""
        end_marker = EndMarker(marker.is_committed, marker.coordinator_epoch)
        data = encode_marker(end_marker, marker.producer_id, marker.producer_epoch, wall_ms)
        return cls(data, read_header(data), end_marker)

    def expect(self, expected: ProducerState, offset: int) -> None:
        """It is kept, and will lie at an offset."""
        header, timestamp_ms = self.header, self.header.max_timestamp_ms
        if self.marker is None:
            expected.record(header, offset, timestamp_ms)
            return
        coordinator_epoch = self.marker.coordinator_epoch
        expected.end(header.producer_id, header.producer_epoch, coordinator_epoch, offset, timestamp_ms)
        expected.last_stable_offset(offset)  # forgets what has ended before

    def append(self, log: PartitionLog, producers: LogProducers) -> bool:
        """Writes it; whether that began a segment. Raises StorageError, OSError."""
        result = log.append(self.data)
        header, timestamp_ms = self.header, self.header.max_timestamp_ms
        if self.marker is None:
            producers.appended(header, result, timestamp_ms)
        else:
            producers.ended(self.marker, header.producer_id, header.producer_epoch, result, timestamp_ms)
        return result.is_rolled


def header_in_transaction(producer_id: int, producer_epoch: int) -> BatchHeader:
    """What such a batch of a transaction will say of its producer, for the checks before its records are made."""
    return BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LENGTH_END,
        partition_leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=BASE_SEQUENCE,
        records_count=1,
    )
