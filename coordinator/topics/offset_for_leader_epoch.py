"""OffsetForLeaderEpoch: where an epoch of leadership ended. Source: KIP-101, KIP-320."""

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.leader_epoch import check_current_leader_epoch
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from storage.leader_epochs import UNKNOWN_EPOCH, UNKNOWN_OFFSET


def answer_offset_for_leader_epoch(
    plane: DataPlane, request: OffsetForLeaderEpochRequest, context: Context, now: Now
) -> Steps:
    """Each partition on its own."""
    topics = []
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        for wanted in topic.partitions:
            result.partitions.append(_answer(plane, context, topic.topic, wanted))
            yield None
        topics.append(result)
    return Answer(OffsetForLeaderEpochResponse(topics=topics))


def _answer(
    plane: DataPlane, context: Context, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    partition = plane.catalogue.partition(topic, wanted.partition)
    log = None if partition is None else partition.log
    epoch, end_offset = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    if partition is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not plane.leads(partition.name, context):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif log is None:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        error = check_current_leader_epoch(wanted.current_leader_epoch, log)
        if error is ErrorCode.NONE:
            epoch, end_offset = log.leader_epochs.end_offset(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(
        error_code=error, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )
