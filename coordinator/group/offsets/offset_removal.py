"""OffsetDelete, deleted topics, offset expiration, and the removal of groups."""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from coordinator.core.outcome import Context, Fact, OutcomeBuilder
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import GroupDeleted, OffsetsDeleted, OffsetsExpired
from coordinator.group.group_interface import Group, GroupTimeSource
from coordinator.group.group_request_rules import build_group_error_response, check_group_id
from coordinator.group.group_requests import (
    ExpiredOffsets,
    ExpireOffsets,
    GroupTimerKey,
    GroupTimerKind,
    TopicsChanged,
)
from coordinator.group.group_types import GroupType
from coordinator.group.shard_groups import ShardGroups, update_topics
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey
from protocol.records.group_record_serde import NO_EXPIRE_TIMESTAMP

MAX_REMOVED_OFFSETS: Final = 500
"""Offsets that one call removes for retention or a deleted topic: some milliseconds. A timer continues."""
MAX_EXPIRY_COST: Final = 10_000
"""The limit for one call of retention, as a number of offsets that it examines."""
REMOVAL_COST: Final = MAX_EXPIRY_COST // MAX_REMOVED_OFFSETS
GROUP_COST: Final = 4


def offset_delete(
    groups: ShardGroups, request: OffsetDeleteRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an OffsetDelete with an OffsetDeleteResponse. Topics with a subscription keep their offsets; a missing
    offset is not an error.
    """
    group = groups.by_id.get(request.group_id)
    error = _find_delete_error(group, request)
    if group is None or error is not ErrorCode.NONE:
        builder.reply(context.waiter, build_group_error_response(request, context.api_version, error))
        return
    topics = []
    for topic in request.topics:
        is_read = group.is_subscribed_to(topic.name)
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        indexes = [partition.partition_index for partition in topic.partitions]
        if not is_read:
            for index in indexes:
                delete_offset(groups, group.group_id, topic.name, index, builder)
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error_code)
                    for index in indexes
                ],
            )
        )
    if builder.records:
        builder.add_event(OffsetsDeleted(group.group_id, len(builder.records), "request"))
    builder.reply(context.waiter, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def _find_delete_error(group: Group | None, request: OffsetDeleteRequest) -> ErrorCode:
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        return error
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()


def on_topics_changed(groups: ShardGroups, request: TopicsChanged, builder: OutcomeBuilder) -> None:
    """Replace the image of topics, and start to remove the offsets of deleted topics in all groups.

    A broker that learns of the deletion late may already have commits for a new topic of the same name: they stay.
    """
    update_topics(groups, request.image)
    offsets = groups.durable.offsets
    deleted_by_group: dict[str, list[str]] = {}
    for name in dict.fromkeys(request.gone):
        for group_id in offsets.find_groups(name):
            deleted_by_group.setdefault(group_id, []).append(name)
    was_idle = not (groups.topics_to_delete or groups.offsets_to_delete)
    groups.topics_to_delete.extend(deleted_by_group.items())
    if was_idle:
        _delete_next_offsets(groups, builder)


def fire_delete_offsets(groups: ShardGroups, builder: OutcomeBuilder) -> None:
    """Remove further offsets of deleted topics."""
    _delete_next_offsets(groups, builder)


def _delete_next_offsets(groups: ShardGroups, builder: OutcomeBuilder) -> None:
    """Remove offsets of deleted topics up to the limit of a call; a timer continues with the rest. As in Kafka, a
    deleted topic and its offsets do not disappear at the same moment.
    """
    offsets, existing = groups.durable.offsets, groups.topics.by_id
    topics, places = groups.topics_to_delete, groups.offsets_to_delete
    deleted: dict[str, int] = {}
    for _ in range(MAX_REMOVED_OFFSETS):
        while topics and not places:
            group_id, names = topics.popleft()
            places.extend((group_id, *place) for place in offsets.list_partitions(group_id, names))
        if not places:
            break
        group_id, name, partition = places.popleft()
        value = offsets.find_offset(group_id, name, partition)
        if value is None or value.topic_id not in existing:
            before = len(builder.records)
            delete_offset(groups, group_id, name, partition, builder)
            deleted[group_id] = deleted.get(group_id, 0) + len(builder.records) - before
    for group_id, count in deleted.items():
        if count:
            builder.add_event(OffsetsDeleted(group_id, count, "topic deleted"))
    if topics or places:
        builder.arm_timer(GroupTimerKey(GroupTimerKind.DELETE_OFFSETS), builder.now.monotonic_ms)


def delete_all_offsets(groups: ShardGroups, group_id: str, builder: OutcomeBuilder) -> int:
    """Remove all offsets of a group, including pending ones; return the number of their partitions."""
    removed = groups.durable.offsets.list_partitions(group_id)
    for topic, partition in removed:
        delete_offset(groups, group_id, topic, partition, builder)
    assert group_id not in groups.durable.offsets, group_id
    return len(removed)


def delete_offset(
    groups: ShardGroups, group_id: str, topic: str, partition: int, builder: OutcomeBuilder
) -> None:
    """Remove the offset of a partition if it exists, and its pending offsets, so that no transaction restores
    it.
    """
    offsets = groups.durable.offsets
    if offsets.find_offset(group_id, topic, partition) is not None or offsets.is_pending(
        group_id, topic, partition
    ):
        key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
        builder.write_fact(Fact(key, None))
        groups.commit_kinds.remove_offset((group_id, topic, partition))


def arm_expiry(groups: ShardGroups, builder: OutcomeBuilder) -> None:
    """Arm the timer of the next expiration of offsets, after `offsets.retention.check.interval.ms`."""
    interval_ms = groups.config.offsets_retention_check_interval_ms
    builder.arm_timer(GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS), builder.now.monotonic_ms + interval_ms)


def fire_expire_offsets(
    groups: ShardGroups, builder: OutcomeBuilder, time_source: GroupTimeSource | None
) -> None:
    """Remove every expired offset, and every empty group without offsets.

    A pass over many offsets takes several calls, the next one at once. `time_source` gives the time of each group
    if groups have clocks of their own.
    """
    now = builder.now
    if not groups.groups_to_expire:
        groups.groups_to_expire.extend(groups.by_id)
    waiting, budget = groups.groups_to_expire, MAX_EXPIRY_COST
    while waiting and budget > 0:
        group = groups.by_id.get(waiting[0])
        most = max(budget // REMOVAL_COST, 1)
        removed = 0
        if group is not None and not group.is_dead:
            if time_source is not None:
                builder.now = time_source(group.group_id, now)
            budget -= _count_offsets(groups, group.group_id)
            removed = len(_expire_group(groups, group, builder, most=most))
        budget -= GROUP_COST + removed * REMOVAL_COST
        if removed < most:
            waiting.popleft()
    builder.now = now
    if waiting:
        builder.arm_timer(GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS), now.monotonic_ms)
    else:
        arm_expiry(groups, builder)


def _count_offsets(groups: ShardGroups, group_id: str) -> int:
    return sum(map(len, groups.durable.offsets.find_group_offsets(group_id).values()))


def expire_offsets(
    groups: ShardGroups, request: ExpireOffsets, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an ExpireOffsets with ExpiredOffsets: GROUP_ID_NOT_FOUND for a missing group."""
    group = groups.by_id.get(request.group_id)
    if group is None or group.is_dead:
        builder.reply(context.waiter, ExpiredOffsets(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    expired = _expire_group(groups, group, builder, request.topics, request.ahead_ms)
    expired_by_topic: dict[str, list[int]] = {}
    for topic, partition in expired:
        expired_by_topic.setdefault(topic, []).append(partition)
    is_deleted = groups.by_id.get(request.group_id) is None
    builder.reply(context.waiter, ExpiredOffsets(partitions=expired_by_topic, is_group_deleted=is_deleted))


def _expire_group(
    groups: ShardGroups,
    group: Group,
    builder: OutcomeBuilder,
    topics: Collection[str] = (),
    ahead_ms: int = 0,
    most: int | None = None,
) -> list[tuple[str, int]]:
    """Remove the expired offsets of one group, at most `most`, and only of `topics` if given; then remove an
    abandoned group without offsets. Return the topics and partitions of the removed offsets.
    """
    at_ms = builder.now.wall_ms + ahead_ms
    expired: list[tuple[str, int]] = []
    if group.offsets_may_expire:
        expired = list(islice(_find_expired_offsets(groups, group, at_ms), most))
    if topics:
        expired = [(topic, partition) for topic, partition in expired if topic in topics]
    for topic, partition in expired:
        delete_offset(groups, group.group_id, topic, partition, builder)
    if expired:
        builder.add_event(OffsetsExpired(group.group_id, len(expired)))
    if group.is_abandoned and group.group_id not in groups.durable.offsets:
        remove_group(groups, group, "retention", builder, expired_offsets=len(expired))
    return expired


def _find_expired_offsets(groups: ShardGroups, group: Group, now_ms: int) -> Iterator[tuple[str, int]]:
    """Yield topics and partitions with an expired offset."""
    retention_ms, idle_since_ms = groups.config.offsets_retention_ms, group.idle_since_ms
    pending = groups.durable.offsets.find_pending_partitions(group.group_id)
    for topic, partitions in groups.durable.offsets.find_group_offsets(group.group_id).items():
        if group.is_subscribed_to(topic):
            continue
        waiting = pending.get(topic, ())
        for partition, value in partitions.items():
            if partition in waiting:
                continue
            expires_ms = value.expire_timestamp
            if expires_ms == NO_EXPIRE_TIMESTAMP:
                needed_ms = value.commit_timestamp if idle_since_ms is None else idle_since_ms
                expires_ms = needed_ms + retention_ms
            if now_ms >= expires_ms:
                yield topic, partition


def remove_group(
    groups: ShardGroups,
    group: Group,
    reason: str,
    builder: OutcomeBuilder,
    *,
    client: MemberName | None = None,
    expired_offsets: int = 0,
) -> None:
    """Remove a deletable group with all its offsets. Writes its tombstones even if the group was never written.
    `reason`, `client` and `expired_offsets` are for GroupDeleted.
    """
    assert group.validate_delete() is ErrorCode.NONE, (group.group_id, group.state_name)
    offsets = delete_all_offsets(groups, group.group_id, builder)
    for fact in (*build_leftover_tombstones(groups.durable, group.group_id), *group.tombstones()):
        builder.write_fact(fact)
    group.retire(builder)
    groups.remove_group(group.group_id)
    builder.add_event(
        GroupDeleted(group.group_id, offsets, reason, expired_offsets=expired_offsets, member=client)
    )


def build_leftover_tombstones(durable: DurableGroups, group_id: str) -> list[Fact]:
    """Build tombstones for records that other software left behind at a conversion. They precede the tombstones of
    the group itself: without its records, the leftover ones would take effect again.
    """
    consumer = durable.consumers.find_group(group_id)
    if consumer is None:
        return []
    if durable.find_group_type(group_id) is not GroupType.CONSUMER:
        return list(consumer.tombstones())
    return (
        []
        if durable.metadata.find_metadata(group_id) is None
        else [Fact(GroupMetadataKey(group=group_id), None)]
    )
