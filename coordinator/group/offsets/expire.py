"""Offsets expire when nobody has needed them for `offsets.retention.minutes` (KIP-211).

A group with members keeps its offsets, but for topics that no member reads any more. An empty group's
offsets live on from the moment it became empty, all together. A simple group's are counted each from its
commit: such a group has no members to speak of. A partition that waits for the end of a transaction keeps its
offset that long. A group of which nothing is left is removed.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets and ClassicGroup.offsetExpirationCondition.
"""

from collections.abc import Collection, Iterator

from coordinator.group.events import OffsetsExpired
from coordinator.group.group import Group, NowOf
from coordinator.group.groups import Groups
from coordinator.group.offsets.delete import delete_offset
from coordinator.group.removal import remove_group
from coordinator.group.requests import ExpireOffsets, OffsetsGone
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.records.value_version import NO_EXPIRE_TIMESTAMP


def arm_expiry(groups: Groups, turn: Turn) -> None:
    """Look again after `offsets.retention.check.interval.ms`."""
    interval_ms = groups.config.offsets_retention_check_interval_ms
    turn.arm(TimerKey(TimerKind.EXPIRE_OFFSETS), turn.now.monotonic_ms + interval_ms)


def fire_expire_offsets(groups: Groups, turn: Turn, now_of: NowOf | None) -> None:
    """Remove every offset that has expired, and every empty group of which nothing is left. In: what time it is for
    each group, where that is not the same."""
    now = turn.now
    for group in list(groups.all()):
        if not group.is_dead:
            if now_of is not None:
                turn.now = now_of(group.group_id, now)
            _expire_group(groups, group, turn)
    turn.now = now
    arm_expiry(groups, turn)


def expire_offsets(groups: Groups, request: ExpireOffsets, context: Context, turn: Turn) -> None:
    """Answer an ExpireOffsets with OffsetsGone: GROUP_ID_NOT_FOUND when there is no such group."""
    group = groups.find(request.group_id)
    if group is None or group.is_dead:
        turn.reply(context.waiter, OffsetsGone(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    expired = _expire_group(groups, group, turn, request.topics, request.ahead_ms)
    gone: dict[str, list[int]] = {}
    for topic, partition in expired:
        gone.setdefault(topic, []).append(partition)
    is_deleted = groups.find(request.group_id) is None
    turn.reply(context.waiter, OffsetsGone(partitions=gone, is_group_deleted=is_deleted))


def _expire_group(
    groups: Groups, group: Group, turn: Turn, topics: Collection[str] = (), ahead_ms: int = 0
) -> list[tuple[str, int]]:
    """Removes what of one group has expired; of these topics alone, where some are named. Out: topics and
    partitions."""
    at_ms = turn.now.wall_ms + ahead_ms
    expired = list(_expired(groups, group, at_ms)) if group.offsets_may_expire else []
    if topics:
        expired = [(topic, partition) for topic, partition in expired if topic in topics]
    for topic, partition in expired:
        delete_offset(groups, group.group_id, topic, partition, turn)
    if expired:
        turn.tell(OffsetsExpired(group.group_id, len(expired)))
    if group.is_abandoned and group.group_id not in groups.durable.offsets:
        remove_group(groups, group, "retention", turn, expired_offsets=len(expired))
    return expired


def _expired(groups: Groups, group: Group, now_ms: int) -> Iterator[tuple[str, int]]:
    """Topics and partitions whose offset has expired."""
    retention_ms, idle_since_ms = groups.config.offsets_retention_ms, group.idle_since_ms
    pending = groups.durable.offsets.pending_of(group.group_id)
    for topic, partitions in groups.durable.offsets.of_group(group.group_id).items():
        if group.reads(topic):
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
