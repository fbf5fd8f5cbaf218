"""A consumer group, made from what the log says of it."""

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.member import MemberState
from coordinator.group.consumer.session import await_revocation, restart_session
from coordinator.group.events import GroupLoaded
from coordinator.group.group_type import GroupType
from coordinator.group.groups import Groups
from coordinator.machine.turn import Turn

NO_CONNECTION = 0


def load_consumer_group(groups: Groups, group_id: str, turn: Turn) -> None:
    """Take a group into service: every member has a session anew, and who has to give partitions up has its
    rebalance timeout for that, as in Kafka also a member of the classic protocol. ValueError when two members hold
    the same."""
    group = groups.add_consumer(group_id)
    durable = group.durable
    _throw_if_held_twice(durable)
    times = groups.consumer_times(group_id)
    for member in durable.members.values():
        restart_session(group, member.member_id, times.session_timeout_ms, NO_CONNECTION, turn)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            await_revocation(group, member, turn)
    size = len(durable.members)
    turn.tell(GroupLoaded(group.group_id, durable.epoch, group.state_name, size, type=GroupType.CONSUMER))


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
