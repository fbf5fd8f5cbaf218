"""Offsets expire when nobody has needed them for `offsets.retention.minutes` (KIP-211).

A group with members keeps its offsets, but for topics that no member reads any more. An empty group's
offsets live on from the moment it became empty, all together. A simple group's are counted each from its
commit: such a group has no members to speak of. A group of which nothing is left is removed.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets and ClassicGroup.offsetExpirationCondition.
"""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.events import OffsetsExpired
from coordinator.group.groups import Groups
from coordinator.group.offsets.delete import delete_offset
from coordinator.group.removal import remove_group
from coordinator.group.state import DEAD, EMPTY, STABLE
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn
from protocol.records import OffsetCommitValue

NO_EXPIRE_TIMESTAMP = -1


def arm_expiry(groups: Groups, turn: Turn) -> None:
    """Look again after `offsets.retention.check.interval.ms`."""
    interval_ms = groups.config.offsets_retention_check_interval_ms
    turn.arm(TimerKey(TimerKind.EXPIRE_OFFSETS), turn.now.monotonic_ms + interval_ms)


def fire_expire_offsets(groups: Groups, turn: Turn) -> None:
    """Remove every offset that has expired, and every empty group of which nothing is left."""
    for group in list(groups.all()):
        if group.state is not DEAD:
            _expire_group(groups, group, turn)
    arm_expiry(groups, turn)


def _expire_group(groups: Groups, group: ClassicGroup, turn: Turn) -> None:
    expired = [
        (topic, partition)
        for topic, partitions in groups.durable.offsets.of_group(group.group_id).items()
        if not group.is_subscribed_to(topic)
        for partition, value in partitions.items()
        if _has_expired(groups, group, value, turn.now.wall_ms)
    ]
    for topic, partition in expired:
        delete_offset(groups, group.group_id, topic, partition, turn)
    if expired:
        turn.tell(OffsetsExpired(group.group_id, len(expired)))
    nothing_left = not groups.durable.offsets.of_group(group.group_id)
    # A pending member is about to join. Kafka removes its group all the same; it then has to begin anew.
    if nothing_left and group.state is EMPTY and not group.pending_members:
        remove_group(groups, group, "retention", turn)


def _has_expired(groups: Groups, group: ClassicGroup, value: OffsetCommitValue, now_ms: int) -> bool:
    if not _may_expire(group):
        return False
    if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
        return now_ms >= value.expire_timestamp
    since_ms = value.commit_timestamp
    if group.state is EMPTY and group.protocol_type is not None and group.state_timestamp_ms is not None:
        since_ms = group.state_timestamp_ms
    return now_ms - since_ms >= groups.config.offsets_retention_ms


def _may_expire(group: ClassicGroup) -> bool:
    if group.protocol_type is None or group.state is EMPTY:
        return True
    known = group.uses_consumer_protocol and group.subscribed_topics is not None
    return known and group.state is STABLE
