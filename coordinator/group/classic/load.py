"""A classic group, made from what the log says of it."""

from sys import intern

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import prepare_rebalance
from coordinator.group.classic.record import restore_group
from coordinator.group.classic.session import restart_session
from coordinator.group.events import GroupLoaded, SubscriptionUnreadable
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import RebalanceCause, Trigger
from coordinator.machine.turn import Turn


def load_classic_group(groups: Groups, group_id: str, turn: Turn) -> None:
    """Make a group of its metadata. One with offsets but no metadata is a simple group; one that is over
    `group.max.size` now has to rebalance, so that its last members learn of it. ValueError when the metadata cannot
    be of a group."""
    metadata = groups.durable.metadata.get(group_id)
    if metadata is None:
        group = ClassicGroup(intern(group_id), turn.now.wall_ms)
    else:
        group = restore_group(intern(group_id), metadata)
    groups.add_classic(group)
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
