"""Creates the groups of a shard from its durable state after a load of the log."""

from collections.abc import Callable, Mapping
from sys import intern
from typing import Final

from coordinator.core.outcome import OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_records import restore_group
from coordinator.group.classic.rebalance import prepare_rebalance
from coordinator.group.consumer.consumer_group import await_revocation, restart_consumer_session
from coordinator.group.consumer.consumer_member import MemberState
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.event_details import RebalanceCause, Trigger
from coordinator.group.group_event_types import GroupLoaded, SubscriptionUnreadable
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_types import GroupType
from coordinator.group.shard_groups import ShardGroups

NO_CONNECTION = 0


def load_groups(groups: ShardGroups, builder: OutcomeBuilder, time_source: GroupTimeSource | None) -> None:
    """Create every group of the log. `time_source` gives the time of each group, if groups have clocks of their
    own.

    Raises:
        ValueError: no group can have such a record.
    """
    assert not groups.by_id, "a shard is loaded once, before it is used"
    now = builder.now
    for group_id in groups.durable.group_ids():
        if time_source is not None:
            builder.now = time_source(group_id, now)
        LOADERS[groups.durable.find_group_type(group_id)](groups, group_id, builder)
        groups.commit_kinds.on_group_loaded(group_id, builder.now.wall_ms)
    builder.now = now


def load_classic_group(groups: ShardGroups, group_id: str, builder: OutcomeBuilder) -> None:
    """Create a classic group from its metadata. A group with offsets and without metadata is a simple group. A
    group with more members than `group.max.size` starts a rebalance, which removes its last members.

    Raises:
        ValueError: no group can have such metadata.
    """
    metadata = groups.durable.metadata.find_metadata(group_id)
    if metadata is None:
        group = ClassicGroup(intern(group_id), builder.now.wall_ms)
    else:
        group = restore_group(intern(group_id), metadata)
    groups.add_group(group)
    state, size = group.state.value, len(group.members)
    builder.add_event(GroupLoaded(group.group_id, group.generation_id, state, size))
    if not group.read_subscriptions():
        builder.add_event(
            SubscriptionUnreadable(group.group_id, group.generation_id, group.protocol_name or "")
        )
    for member in group.members.values():
        group.restart_session(member, builder)
    capacity = groups.config.group_max_size
    if size > capacity:
        reason = (
            f"Freshly-loaded group {group.group_id} (size {size}) is over capacity {capacity}. "
            "Rebalancing in order to give a chance for consumers to commit offsets"
        )
        prepare_rebalance(groups, group, Trigger(RebalanceCause.OVER_CAPACITY, reason, None), builder)


def load_consumer_group(groups: ShardGroups, group_id: str, builder: OutcomeBuilder) -> None:
    """Create a consumer group from its records. Every session restarts. So does the rebalance timeout of a member
    with partitions to revoke, as in Kafka also for a member of the classic protocol.

    Raises:
        ValueError: two members hold the same partition or instance id.
    """
    group = groups.create_consumer_group(group_id)
    durable = group.durable
    _throw_if_held_twice(durable)
    times = groups.resolve_consumer_times(group_id)
    for member in durable.members.values():
        restart_consumer_session(group, member.member_id, times.session_timeout_ms, NO_CONNECTION, builder)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            await_revocation(group, member, builder)
    size = len(durable.members)
    builder.add_event(
        GroupLoaded(group.group_id, durable.epoch, group.state_name, size, type=GroupType.CONSUMER)
    )


def _throw_if_held_twice(group: DurableConsumerGroup) -> None:
    counted = sum(
        len(of_topic)
        for member in group.members.values()
        for partitions in (member.assigned, member.pending)
        for of_topic in partitions.values()
    )
    if counted != sum(map(len, group.holders.values())):
        raise ValueError(f"two members of group {group.group_id} hold the same partition")
    statics = sum(member.instance_id is not None for member in group.members.values())
    if statics != len(group.static_members):
        raise ValueError(f"two members of group {group.group_id} have the same instance id")


LOADERS: Final[Mapping[GroupType, Callable[[ShardGroups, str, OutcomeBuilder], None]]] = {
    GroupType.CLASSIC: load_classic_group,
    GroupType.CONSUMER: load_consumer_group,
}
"""The function that creates a group of each type from the durable state."""
