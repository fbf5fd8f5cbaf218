"""DeleteRecords: the log starts later from now on. Source: KIP-107, Kafka's
`ReplicaManager.deleteRecords`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.partition import HostedPartition
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Mark, written
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from storage.log import PartitionLog
from storage.os_error import outcome
from storage.topic_partition import TopicPartition

HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


def answer_delete_records(
    plane: DataPlane, request: DeleteRecordsRequest, context: Context, now: Now
) -> Steps:
    """The response, each partition on its own. No log is changed before the disk has where all of them begin.

    As in Kafka a topic without partitions is not answered, and of a partition that comes twice the last counts.
    """
    starts: dict[TopicPartition, int] = {}
    parts: dict[TopicPartition, HostedPartition] = {}
    answers: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
    topics = []
    yield Mark.CHANGES
    for topic in request.topics:
        result = DeleteRecordsTopicResult(name=topic.name, partitions=[])
        for wanted in {asked.partition_index: asked for asked in topic.partitions}.values():
            answer = DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index,
                low_watermark=NO_LOW_WATERMARK,
                error_code=ErrorCode.NONE,
            )
            try:
                partition = _find(plane, context, topic.name, wanted.partition_index)
                starts[partition.name] = answer.low_watermark = _new_start(partition, wanted.offset)
                parts[partition.name], answers[partition.name] = partition, answer
            except Refusal as error:
                answer.error_code = error.code
            result.partitions.append(answer)
            yield None
        if result.partitions:
            topics.append(result)
    if starts and (yield from plane.directory.raising_log_starts(starts)) is not None:
        _refuse(answers.values())
        return Answer(DeleteRecordsResponse(topics=topics))
    moved: dict[TopicPartition, PartitionLog] = {}
    for name, start in starts.items():
        log = parts[name].log
        if log is not None and not log.is_deleted:
            # Retention tries again to remove a segment that the disk keeps: the records are deleted all the same.
            outcome(partial(log.delete_records_before, start))
            moved[name] = log
    plane.directory.log_starts_raised(moved)
    for name, log in moved.items():
        try:
            yield from written([partial(parts[name].keep_start, log)])
        except OSError:
            _refuse([answers[name]])
    return Answer(DeleteRecordsResponse(topics=topics))


def _refuse(answers: Iterable[DeleteRecordsPartitionResult]) -> None:
    for answer in answers:
        answer.error_code, answer.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, NO_LOW_WATERMARK


def _find(plane: DataPlane, context: Context, name: str, number: int) -> HostedPartition:
    topic = plane.catalogue.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not topic.values.log.deletes:
        raise Refusal(ErrorCode.POLICY_VIOLATION)
    partition = topic.hosted[number]
    if not plane.leads(partition.name, context):
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def _new_start(partition: HostedPartition, offset: int) -> int:
    """Where the log is to begin. Raises Refusal."""
    log = partition.log
    if log is None:
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
    wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= partition.high_watermark:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    return max(wanted, log.log_start_offset)
