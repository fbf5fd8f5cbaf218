"""DescribeProducers: who has written to partitions lately, and has a transaction open there.

Source: KIP-664, Kafka's `KafkaApis.handleDescribeProducersRequest`, `UnifiedLog.activeProducers`.
"""

from typing import Final

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.topic_name import why_illegal
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from storage.producers.producer_state import ProducerEntry

NOTHING: Final = -1


def answer_describe_producers(
    plane: DataPlane, request: DescribeProducersRequest, context: Context, now: Now
) -> Steps:
    """Each partition on its own. As in Kafka only a topic that is not there is explained in words."""
    topics = []
    for topic in request.topics:
        partitions = []
        for number in topic.partition_indexes:
            partitions.append(_answer(plane, context, topic.name, number))
            yield None
        topics.append(DescribeProducersTopicResponse(name=topic.name, partitions=partitions))
    return Answer(DescribeProducersResponse(topics=topics))


def _answer(
    plane: DataPlane, context: Context, topic: str, number: int
) -> DescribeProducersPartitionResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if why_illegal(topic) is not None:
        return _refused(number, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION.message)
    if plane.catalogue.get(topic) is None:
        return _refused(number, unknown, unknown.message)
    partition = plane.catalogue.partition(topic, number)
    if partition is None:
        return _refused(number, unknown)
    if not plane.leads(partition.name, context):
        return _refused(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producers = partition.producers
    if producers is None:
        return _refused(number, ErrorCode.KAFKA_STORAGE_ERROR)
    return DescribeProducersPartitionResponse(
        partition_index=number,
        error_code=ErrorCode.NONE,
        active_producers=[_described(*each) for each in producers.state.entries()],
    )


def _described(producer_id: int, entry: ProducerEntry) -> DescribeProducersProducerState:
    """A producer of whose epoch only a marker is known has no sequence."""
    first_offset = entry.transaction_offset
    return DescribeProducersProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NOTHING,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=NOTHING if first_offset is None else first_offset,
    )


def _refused(number: int, error: ErrorCode, message: str | None = None) -> DescribeProducersPartitionResponse:
    return DescribeProducersPartitionResponse(
        partition_index=number, error_code=error, error_message=message, active_producers=[]
    )
