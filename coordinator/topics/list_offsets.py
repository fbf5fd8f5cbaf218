"""ListOffsets: the offset at a point in time, or at an end of the log.

Source: KIP-79, KIP-405, KIP-734, KIP-1005, KIP-1023; Kafka's `ReplicaManager.fetchOffset`. There is no
tiered storage.
"""

from collections import Counter
from typing import Final

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.isolation import READ_COMMITTED
from coordinator.topics.leader_epoch import check_current_leader_epoch
from coordinator.topics.missing import MOST_TOLD, TopicMissing, missing_partition
from coordinator.topics.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from storage.errors import StorageError
from storage.log import PartitionLog

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


def answer_list_offsets(plane: DataPlane, request: ListOffsetsRequest, context: Context, now: Now) -> Steps:
    """Each partition on its own; one that is asked for twice gets INVALID_REQUEST, once."""
    catalogue = plane.catalogue
    is_committed = request.isolation_level == READ_COMMITTED
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        counts.update((topic.name, partition.partition_index) for partition in topic.partitions)
        yield None
    topics: dict[str, ListOffsetsTopicResponse] = {}
    missing: list[TopicMissing] = []
    done = set()
    for topic in request.topics:
        answers = topics.setdefault(topic.name, ListOffsetsTopicResponse(name=topic.name, partitions=[]))
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if key in done:
                continue
            done.add(key)
            if counts[key] > 1 and context.api_version > 0:
                answer = _refused(wanted, ErrorCode.INVALID_REQUEST)
            else:
                answer = _answer(plane, context, topic.name, wanted, is_committed, now.wall_ms)
            answers.partitions.append(answer)
            if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and len(missing) < MOST_TOLD:
                missing.append(missing_partition(catalogue, topic.name, answer.partition_index))
            yield None
    return Answer(ListOffsetsResponse(topics=list(topics.values())), missing=missing)


def _refused(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)


def _answer(
    plane: DataPlane,
    context: Context,
    topic: str,
    wanted: ListOffsetsPartition,
    is_committed: bool,
    now_ms: int,
) -> ListOffsetsPartitionResponse:
    version = context.api_version
    first_version = 0 if wanted.timestamp >= 0 else _FIRST_VERSION.get(wanted.timestamp)
    if first_version is None or version < first_version:
        return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
    partition = plane.catalogue.partition(topic, wanted.partition_index)
    if partition is None:
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not plane.leads(partition.name, context):
        return _refused(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = partition.log
    if log is None:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    error = check_current_leader_epoch(wanted.current_leader_epoch, log)
    if error is not ErrorCode.NONE:
        return _refused(wanted, error)
    answer = _refused(wanted, ErrorCode.NONE)
    try:
        if version == 0:
            answer.old_style_offsets = _old_style(partition, log, wanted, now_ms)
        else:
            end = partition.last_stable_offset if is_committed else partition.high_watermark
            _look_up(log, end, wanted.timestamp, answer)
    except (StorageError, OSError):
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    return answer


def _look_up(log: PartitionLog, end: int, timestamp: int, answer: ListOffsetsPartitionResponse) -> None:
    """Fills in offset, time and epoch; leaves them at -1 where no record before `end`, where reading ends, has such
    a time."""
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return
    if timestamp == LATEST:
        answer.offset = end
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
    else:
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= end:
            return
        answer.timestamp, answer.offset = found
    answer.leader_epoch = log.leader_epochs.at(answer.offset)


def _old_style(
    partition: Partition, log: PartitionLog, wanted: ListOffsetsPartition, now_ms: int
) -> list[int]:
    """Version 0 answers with where segments begin, newest first, by the age of their files."""
    segments = log.segments
    starts = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in segments]
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
