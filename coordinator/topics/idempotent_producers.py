"""DescribeProducers: who has written to partitions lately, and has a transaction open there.

Source: KIP-664, Kafka's `KafkaApis.handleDescribeProducersRequest`, `UnifiedLog.activeProducers`.
"""

from collections.abc import Iterator
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
from storage.producers.producer_table import ProducerRows

NOTHING: Final = -1


def answer_describe_producers(
    plane: DataPlane, request: DescribeProducersRequest, context: Context, now: Now
) -> Steps:
    """Describe the producers of each partition; a partition that the request repeats is described once, so that the
    answer cannot grow beyond what the partitions hold. As in Kafka only a missing topic has an error message."""
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
            response.partitions.append(_answer(plane, context, topic.name, number))
            yield None
        yield None
    return Answer(DescribeProducersResponse(topics=list(topics.values())))


class ActiveProducers(list[DescribeProducersProducerState]):
    """The producers of one partition, each described when the encoder reaches it.

    A partition may have a million producers. As objects they would take hundreds of megabytes, in each of several
    answers at once. The encoder stops at the largest answer that a connection may have (`net/large_answers.py`).
    """

    def __init__(self, rows: ProducerRows) -> None:
        super().__init__()
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DescribeProducersProducerState]:
        return map(_described, self._rows)


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
        active_producers=ActiveProducers(producers.state.rows()),
    )


def _described(row: tuple[int, ...]) -> DescribeProducersProducerState:
    """A producer of whose epoch only a marker is known has no sequence."""
    producer_id, epoch, last_sequence, last_offset, _, timestamp_ms, coordinator_epoch, first_offset = row
    return DescribeProducersProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=last_sequence if last_offset >= 0 else NOTHING,
        last_timestamp=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=first_offset,
    )


def _refused(number: int, error: ErrorCode, message: str | None = None) -> DescribeProducersPartitionResponse:
    return DescribeProducersPartitionResponse(
        partition_index=number, error_code=error, error_message=message, active_producers=[]
    )
