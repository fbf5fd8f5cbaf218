"""OffsetFetch: how far a group has come. Anyone may ask; a partition without an offset is no error.

Source: Kafka's OffsetMetadataManager.fetchOffsets.
"""

from typing import Final

from coordinator.group.groups import Groups
from coordinator.group.offsets.offset_store import NO_OFFSETS, NONE_PENDING, GroupOffsets
from coordinator.group.requests import FetchOffsets
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
from protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.records import OffsetCommitValue

NONE: Final = ErrorCode.NONE
NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1


def fetch_offsets(groups: Groups, request: FetchOffsets, context: Context, turn: Turn) -> None:
    """Answer with an OffsetFetchResponseGroup: the partitions asked for in their order, or all that have
    an offset. A member of a consumer group that names another epoch than its own is refused. With
    `require_stable` nobody is told one that a transaction may be about to replace."""
    asked = request.group
    group = groups.find(asked.group_id)
    is_gone = group is None or group.is_dead
    error = NONE if group is None or is_gone else group.fetch_error(asked.member_id, asked.member_epoch)
    if error is not NONE:
        turn.reply(
            context.waiter,
            OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error),
        )
        return
    store = groups.durable.offsets
    offsets: GroupOffsets = NO_OFFSETS if is_gone else store.of_group(asked.group_id)
    is_told_all = is_gone or not request.require_stable
    unstable = NONE_PENDING if is_told_all else store.pending_of(asked.group_id)
    if asked.topics is None:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    _partition(index, value) if index not in waiting else _unstable(index)
                    for index, value in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
            for waiting in [unstable.get(name, ())]
        ]
    else:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _partition(index, _of_topic(offsets.get(topic.name, {}).get(index), topic.topic_id))
                    if index not in waiting
                    else _unstable(index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
            for waiting in [unstable.get(topic.name, ())]
        ]
    turn.reply(context.waiter, OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics))


def _of_topic(value: OffsetCommitValue | None, topic_id: bytes) -> OffsetCommitValue | None:
    """The value unless it was committed for an earlier topic of that name, as far as both ids are known."""
    if value is None or ZERO_UUID in (value.topic_id, topic_id) or value.topic_id == topic_id:
        return value
    return None


def _partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET if value is None else value.offset,
        committed_leader_epoch=NO_LEADER_EPOCH if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=ErrorCode.NONE,
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
