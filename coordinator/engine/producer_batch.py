"""Batches that have a producer, on their way into the log of a machine: records of transactions, and the markers at
their ends.

The producers of the log know such a batch from the moment on that it is kept for the end of the iteration: what is
asked next is checked against it. Where it will lie in the log is known by then. Should it never come to lie there,
the partition is read again, and with it its producers.
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
from storage.producers.log_producers import LogProducers
from storage.producers.marker import EndMarker, encode_marker
from storage.record import records_of
from storage.transaction_index import AbortedTransaction

BASE_SEQUENCE: Final = 0
"""What Kafka's coordinator writes: its batches are not numbered, whether or not they have a producer."""


class ProducerBatch(NamedTuple):
    """One such batch, encoded, and the transaction that it aborts."""

    data: bytes
    aborted: AbortedTransaction | None = None

    @classmethod
    def of_transaction(
        cls,
        facts: Iterable[EncodedFact],
        whose: InTransaction,
        codec: int,
        producers: LogProducers,
        offset: int,
        wall_ms: int,
    ) -> "ProducerBatch":
        """Records of a transaction, taken up by the producers. In: the offset of the first."""
        data = encode_batch(
            records_of(facts, wall_ms),
            producer_id=whose.producer_id,
            producer_epoch=whose.producer_epoch,
            base_sequence=BASE_SEQUENCE,
            is_transactional=True,
            codec=codec,
        )
        producers.state.record(read_header(data), offset, wall_ms)
        return cls(data)

    @classmethod
    def of_marker(cls, marker: Marker, producers: LogProducers, offset: int, wall_ms: int) -> "ProducerBatch":
        """The end of a transaction, taken up by the producers; one that repeats another, too. In: its offset."""
        producer_id, epoch, coordinator_epoch, is_committed = marker
        data = encode_marker(EndMarker(is_committed, coordinator_epoch), producer_id, epoch, wall_ms)
        ended = producers.state.end(producer_id, epoch, coordinator_epoch, offset, wall_ms)
        return cls(data, None if ended is None or is_committed else AbortedTransaction(*ended))

    def written(self, producers: LogProducers) -> None:
        """It is in the log: what it aborts goes to the index."""
        if self.aborted is not None:
            producers.aborted.add(self.aborted)


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
