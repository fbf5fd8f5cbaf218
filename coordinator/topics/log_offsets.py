"""ListOffsets and OffsetForLeaderEpoch."""

from collections import Counter
from typing import Final

from coordinator.core.outcome import Context
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    MAX_REPORTED_MISSING,
    Answer,
    MissingTopic,
    describe_missing_partition,
)
from coordinator.topics.long_work import LongWork, run_thread_steps
from coordinator.topics.partition import READ_COMMITTED, ReadablePartition
from coordinator.topics.partition_leadership import check_current_leader_epoch
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from storage.batch import NO_TIMESTAMP
from storage.leader_epochs import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.timestamp_lookup import TimestampOffset

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_FIRST_VERSION: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


async def answer_list_offsets(
    plane: DataPlane, request: ListOffsetsRequest, context: Context, work: LongWork
) -> Answer:
    """Answer for each partition independently. A duplicate partition gets one result, which is INVALID_REQUEST
    except in version 0."""
    catalogue = plane.catalogue
    is_committed = request.isolation_level == READ_COMMITTED
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        counts.update((topic.name, partition.partition_index) for partition in topic.partitions)
        await work.checkpoint()
    topics: dict[str, ListOffsetsTopicResponse] = {}
    missing: list[MissingTopic] = []
    done = set()
    for topic in request.topics:
        answers = topics.setdefault(topic.name, ListOffsetsTopicResponse(name=topic.name, partitions=[]))
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if key in done:
                continue
            done.add(key)
            if counts[key] > 1 and context.api_version > 0:
                answer = _build_response(wanted, ErrorCode.INVALID_REQUEST)
            else:
                answer = await _find_list_offset(plane, context, work, topic.name, wanted, is_committed)
            answers.partitions.append(answer)
            if (
                answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                and len(missing) < MAX_REPORTED_MISSING
            ):
                missing.append(describe_missing_partition(catalogue, topic.name, answer.partition_index))
            await work.checkpoint()
    return Answer(ListOffsetsResponse(topics=list(topics.values())), missing=missing)


def _build_response(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)


async def _find_list_offset(
    plane: DataPlane,
    context: Context,
    work: LongWork,
    topic: str,
    wanted: ListOffsetsPartition,
    is_committed: bool,
) -> ListOffsetsPartitionResponse:
    found = _find_log(plane, context, topic, wanted)
    if isinstance(found, ErrorCode):
        return _build_response(wanted, found)
    partition, log = found
    try:
        if context.api_version == 0:
            answer = _build_response(wanted, ErrorCode.NONE)
            answer.old_style_offsets = _list_segment_offsets(partition, log, wanted, work.now().wall_ms)
            return answer
        place = await _find_offset(work, partition, log, wanted.timestamp, is_committed)
        error = ErrorCode.NONE
    except (StorageError, OSError):
        place, error = None, ErrorCode.KAFKA_STORAGE_ERROR
    if _find_log(plane, context, topic, wanted) != found:
        # The topic was deleted, or the log was opened again, while another thread searched it.
        return await _find_list_offset(plane, context, work, topic, wanted, is_committed)
    answer = _build_response(wanted, error)
    if place is not None:
        answer.timestamp, answer.offset = place
        answer.leader_epoch = log.leader_epochs.find_epoch(answer.offset)
    return answer


def _find_log(
    plane: DataPlane, context: Context, topic: str, wanted: ListOffsetsPartition
) -> tuple[ReadablePartition, PartitionLog] | ErrorCode:
    """Return the partition and its current log, or the error if this broker cannot answer for it."""
    first_version = 0 if wanted.timestamp >= 0 else _FIRST_VERSION.get(wanted.timestamp)
    if first_version is None or context.api_version < first_version:
        return ErrorCode.UNSUPPORTED_VERSION
    partition = plane.catalogue.find_partition(topic, wanted.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not plane.is_leader(partition.name, context):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    log = partition.log
    if log is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    error = check_current_leader_epoch(wanted.current_leader_epoch, log)
    return (partition, log) if error is ErrorCode.NONE else error


async def _find_offset(
    work: LongWork, partition: ReadablePartition, log: PartitionLog, timestamp: int, is_committed: bool
) -> TimestampOffset | None:
    """Find the offset for a timestamp or for one of the special values. Return None if no readable record has
    such a time.

    A search by time continues in another thread. Raises StorageError, OSError.
    """
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(NO_TIMESTAMP, log.log_start_offset)
    if timestamp == LATEST:
        return TimestampOffset(NO_TIMESTAMP, _find_end(partition, is_committed))
    search = (
        log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_offset_for_timestamp(timestamp)
    )
    found = await run_thread_steps(work, search)
    return None if found is None or found.offset >= _find_end(partition, is_committed) else found


def _find_end(partition: ReadablePartition, is_committed: bool) -> int:
    return partition.last_stable_offset if is_committed else partition.high_watermark


def _list_segment_offsets(
    partition: ReadablePartition, log: PartitionLog, wanted: ListOffsetsPartition, now_ms: int
) -> list[int]:
    """Return the offsets at which segments begin for version 0, newest first, selected by the age of the
    files."""
    segments = log.segments
    starts = [
        (max(segment.base_offset, log.log_start_offset), segment.read_modified_ms()) for segment in segments
    ]
    if segments[-1].size > 0:
        starts.append((log.log_end_offset, now_ms))
    if wanted.timestamp == LATEST:
        last = len(starts) - 1
    elif wanted.timestamp == EARLIEST:
        last = 0
    else:
        last = max(
            (n for n, (_, modified_ms) in enumerate(starts) if modified_ms <= wanted.timestamp), default=-1
        )
    offsets = [offset for offset, _ in reversed(starts[: last + 1])][: max(0, wanted.max_num_offsets)]
    end = partition.high_watermark
    if any(offset > end for offset in offsets):
        return [end, *(offset for offset in offsets if offset <= end)]
    return offsets


async def answer_offset_for_leader_epoch(
    plane: DataPlane, request: OffsetForLeaderEpochRequest, context: Context, work: LongWork
) -> Answer:
    """Answer for each partition independently."""
    topics = []
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        for wanted in topic.partitions:
            result.partitions.append(_find_epoch_end(plane, context, topic.topic, wanted))
            await work.checkpoint()
        topics.append(result)
    return Answer(OffsetForLeaderEpochResponse(topics=topics))


def _find_epoch_end(
    plane: DataPlane, context: Context, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    partition = plane.catalogue.find_partition(topic, wanted.partition)
    log = None if partition is None else partition.log
    epoch, end_offset = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    if partition is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not plane.is_leader(partition.name, context):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif log is None:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        error = check_current_leader_epoch(wanted.current_leader_epoch, log)
        if error is ErrorCode.NONE:
            epoch, end_offset = log.leader_epochs.find_end_offset(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(
        error_code=error, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )
