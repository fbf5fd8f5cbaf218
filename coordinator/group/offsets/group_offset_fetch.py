"""OffsetFetch: the committed offsets of a group. Any client may fetch them; a missing offset is not an error.

Source: Kafka's OffsetMetadataManager.fetchOffsets.
"""

from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.durable_groups import NO_OFFSETS, NONE_PENDING, GroupOffsets
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.group.group_requests import FetchOffsets
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.records.group_record_schemas import OffsetCommitValue
from protocol.schema import ZERO_UUID

NONE: Final = ErrorCode.NONE
NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1


def fetch_offsets(
    groups: ShardGroups, request: FetchOffsets, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer with an OffsetFetchResponseGroup: the requested partitions in their order, or all with an offset.

    A member of a consumer group with a wrong epoch is refused. With `require_stable`, a partition with a pending
    transactional offset is answered with an error instead of the offset.
    """
    requested = request.group
    group = groups.by_id.get(requested.group_id)
    is_gone = group is None or group.is_dead
    error = (
        NONE
        if group is None or is_gone
        else group.validate_fetch(requested.member_id, requested.member_epoch)
    )
    if error is not NONE:
        builder.reply(context.waiter, build_group_error_response(request, context.api_version, error))
        return
    store = groups.durable.offsets
    offsets: GroupOffsets = NO_OFFSETS if is_gone else store.find_group_offsets(requested.group_id)
    includes_unstable = is_gone or not request.require_stable
    unstable = NONE_PENDING if includes_unstable else store.find_pending_partitions(requested.group_id)
    if requested.topics is None:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    _build_partition(index, value)
                    if index not in waiting
                    else _build_unstable_partition(index)
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
                    _build_partition(
                        index, _match_topic_id(offsets.get(topic.name, {}).get(index), topic.topic_id)
                    )
                    if index not in waiting
                    else _build_unstable_partition(index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in requested.topics
            for waiting in [unstable.get(topic.name, ())]
        ]
    builder.reply(context.waiter, OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics))


def _match_topic_id(value: OffsetCommitValue | None, topic_id: bytes) -> OffsetCommitValue | None:
    """Return the value, or None if it was committed for an earlier topic of that name, as far as both ids are
    known.
    """
    if value is None or ZERO_UUID in (value.topic_id, topic_id) or value.topic_id == topic_id:
        return value
    return None


def _build_partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET if value is None else value.offset,
        committed_leader_epoch=NO_LEADER_EPOCH if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=ErrorCode.NONE,
    )


def _build_unstable_partition(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
