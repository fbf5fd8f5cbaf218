"""OffsetForLeaderEpoch: where an epoch of leadership ended. Source: KIP-101, KIP-320."""

from coordinator.topics.catalogue import Catalogue
from coordinator.topics.leader_epoch import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    check_current_leader_epoch,
    end_offset_for_epoch,
)
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def answer_offset_for_leader_epoch(
    catalogue: Catalogue, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Each partition on its own."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(catalogue, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(catalogue: Catalogue, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = catalogue.partition(topic, wanted.partition)
    epoch, end_offset = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    if partition is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.log is None:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        error = check_current_leader_epoch(wanted.current_leader_epoch)
        if error is ErrorCode.NONE:
            epoch, end_offset = end_offset_for_epoch(wanted.leader_epoch, partition.log)
    return EpochEndOffset(
        error_code=error, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )
