"""DescribeProducers, and InitProducerId without a transactional id."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from coordinator.core.outcome import Context, Now
from coordinator.topics.data_plane import DataPlane, LongAnswer
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.long_work import LongWork
from coordinator.topics.topic_name import find_name_error
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from storage.producers.producer_table import ProducerRows

NO_SEQUENCE: Final = -1

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


async def answer_describe_producers(
    plane: DataPlane, request: DescribeProducersRequest, context: Context, work: LongWork
) -> Answer:
    """Describe the producers of each partition, a repeated partition only once, so that the partitions bound the
    size of the response. As in Kafka only a missing topic has an error message.
    """
    topics: dict[str, DescribeProducersTopicResponse] = {}
    described = set()
    for topic in request.topics:
        response = topics.setdefault(
            topic.name, DescribeProducersTopicResponse(name=topic.name, partitions=[])
        )
        for number in topic.partition_indexes:
            if (topic.name, number) in described:
                continue
            described.add((topic.name, number))
            response.partitions.append(_describe_partition(plane, context, topic.name, number))
            await work.checkpoint()
        await work.checkpoint()
    return Answer(DescribeProducersResponse(topics=list(topics.values())))


class ActiveProducers(list[DescribeProducersProducerState]):
    """The producers of one partition. The encoder creates the description of each on demand.

    A partition may have a million producers. As objects they would need hundreds of megabytes in each of several
    concurrent responses. The encoder stops at the maximum response size of a connection
    (`network/large_messages.py`).
    """

    def __init__(self, rows: ProducerRows) -> None:
        super().__init__()
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DescribeProducersProducerState]:
        return map(_describe_producer, self._rows)


def _describe_partition(
    plane: DataPlane, context: Context, topic: str, number: int
) -> DescribeProducersPartitionResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if find_name_error(topic) is not None:
        return _build_partition_error(
            number, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION.message
        )
    if plane.catalogue.find_topic(topic) is None:
        return _build_partition_error(number, unknown, unknown.message)
    partition = plane.catalogue.find_partition(topic, number)
    if partition is None:
        return _build_partition_error(number, unknown)
    if not plane.is_leader(partition.name, context):
        return _build_partition_error(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producers = partition.producers
    if producers is None:
        return _build_partition_error(number, ErrorCode.KAFKA_STORAGE_ERROR)
    return DescribeProducersPartitionResponse(
        partition_index=number,
        error_code=ErrorCode.NONE,
        active_producers=ActiveProducers(producers.state.copy_rows()),
    )


def _describe_producer(row: tuple[int, ...]) -> DescribeProducersProducerState:
    """Describe a producer. If only a marker set its epoch, it has no sequence number."""
    producer_id, epoch, last_sequence, last_offset, _, timestamp_ms, coordinator_epoch, first_offset = row
    return DescribeProducersProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=last_sequence if last_offset >= 0 else NO_SEQUENCE,
        last_timestamp=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=first_offset,
    )


def _build_partition_error(
    number: int, error: ErrorCode, message: str | None = None
) -> DescribeProducersPartitionResponse:
    return DescribeProducersPartitionResponse(
        partition_index=number, error_code=error, error_message=message, active_producers=[]
    )


def answer_init_producer_id(
    plane: DataPlane, request: InitProducerIdRequest, context: Context, now: Now
) -> Answer | LongAnswer:
    """Return a new producer id with epoch 0. As in Kafka it replaces the id of a producer without transactions."""
    assert request.transactional_id is None, "for the transaction coordinator"
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Answer(build_error_response(request, context.api_version, ErrorCode.INVALID_REQUEST))
    producer_id = plane.producer_ids.take_producer_id()
    if producer_id is None:
        return partial(_reserve_and_answer, plane, request, context)
    return _build_answer(producer_id)


async def _reserve_and_answer(
    plane: DataPlane, request: InitProducerIdRequest, context: Context, work: LongWork
) -> Answer:
    try:
        producer_id = await plane.producer_ids.reserve_producer_id(work)
    except OSError:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Answer(build_error_response(request, context.api_version, error))
    return _build_answer(producer_id)


def _build_answer(producer_id: int) -> Answer:
    return Answer(
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
    )
