"""The marker at the end of a transaction: written to a partition as its coordinator says.

Limits that a topic sets for clients do not apply to it, nor does it matter whether the producer is known or has a
transaction open here: a marker that ends nothing is written all the same, and fences the producer's older epochs.

Source: KIP-98, KIP-890, KIP-1228; Kafka's `KafkaApis.handleWriteTxnMarkersRequest`, `ProducerAppendInfo`.
"""

from typing import Final

from coordinator.machine.outcome import Now
from coordinator.topics.answer import (
    MarkerRepeated,
    MarkerWritten,
    PartitionFailed,
    SegmentRolled,
    TopicChange,
)
from coordinator.topics.catalogue import Catalogue
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.os_error import reason_of
from storage.producers.marker import EndMarker, encode_marker
from storage.producers.producer_state import CoordinatorFenced, InvalidProducerEpoch
from storage.topic_partition import TopicPartition

_CODES: Final = {
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


def write_marker(
    catalogue: Catalogue,
    name: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
    transaction_version: int,
    now: Now,
) -> MarkerWritten:
    """Writes a marker to a partition that clients produce to; whom that wakes is the caller's to say."""
    topic = catalogue.get(name.topic)
    if topic is None or not 0 <= name.partition < len(topic.hosted):
        return MarkerWritten(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.hosted[name.partition]
    log = partition.usable_log(now.monotonic_ms)
    if log is None:
        return MarkerWritten(ErrorCode.KAFKA_STORAGE_ERROR)
    producers = partition.producers
    assert producers is not None, name
    try:
        is_repeated = producers.state.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, transaction_version
        )
    except (InvalidProducerEpoch, CoordinatorFenced) as error:
        return MarkerWritten(_CODES[type(error)])
    append_time_ms = now.wall_ms if topic.values.is_log_append_time else None
    batch = encode_marker(marker, producer_id, producer_epoch, now.wall_ms)
    try:
        result = log.append(batch, log_append_time_ms=append_time_ms)
    except (StorageError, OSError) as error:
        return MarkerWritten(
            ErrorCode.KAFKA_STORAGE_ERROR, changes=[PartitionFailed(*name, reason_of(error))]
        )
    changes: list[TopicChange] = [SegmentRolled(*name, log)] if result.is_rolled else []
    producers.ended(marker, producer_id, producer_epoch, result, now.wall_ms)
    if is_repeated:
        changes.append(MarkerRepeated(*name, producer_id, producer_epoch))
    awaited = log if partition.is_flushed_always else None
    return MarkerWritten(ErrorCode.NONE, awaited, result.last_offset + 1, changes)
