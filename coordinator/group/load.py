"""The soft half of a shard, made from the durable one after the log was read."""

from sys import intern

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import prepare_rebalance
from coordinator.group.classic.record import restore_group
from coordinator.group.classic.session import restart_session
from coordinator.group.events import GroupLoaded, SubscriptionUnreadable
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import RebalanceCause, Trigger
from coordinator.machine.turn import Turn


def load_groups(groups: Groups, turn: Turn) -> None:
    """Every group that the log knows. One with offsets but no metadata is a simple group; one that is over
    `group.max.size` now has to rebalance, so that its last members learn of it."""
    assert not groups.classic, "a shard is loaded once, before it is used"
    durable = groups.durable
    for group_id in durable.group_ids():
        metadata = durable.metadata.get(group_id)
        if metadata is None:
            group = ClassicGroup(intern(group_id), turn.now.wall_ms)
        else:
            group = restore_group(intern(group_id), metadata)
        groups.classic[group.group_id] = group
        _load(groups, group, turn)


def _load(groups: Groups, group: ClassicGroup, turn: Turn) -> None:
    state, size = group.state.value, len(group.members)
    turn.tell(GroupLoaded(group.group_id, group.generation_id, state, size))
    if not group.read_subscriptions():
        turn.tell(SubscriptionUnreadable(group.group_id, group.generation_id, group.protocol_name or ""))
    for member in group.members.values():
        restart_session(group, member, turn)
    capacity = groups.config.group_max_size
    if size > capacity:
        reason = (
            f"Freshly-loaded group {group.group_id} (size {size}) is over capacity {capacity}. "
            "Rebalancing in order to give a chance for consumers to commit offsets"
        )
        prepare_rebalance(groups, group, Trigger(RebalanceCause.OVER_CAPACITY, reason, None), turn)
