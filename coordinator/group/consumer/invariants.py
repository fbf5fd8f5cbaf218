"""What must hold of a consumer group between calls."""

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import LEAVING_STATIC_EPOCH, ConsumerMember, MemberState
from coordinator.group.consumer.store import ConsumerGroupStore
from coordinator.group.durable import DurableState
from coordinator.machine.outcome import NO_PRODUCER_ID


def check_consumer_group(group: ConsumerGroup, durable: DurableState) -> None:
    """Raise AssertionError naming the group when something is not as it must be."""
    if group.is_dead:
        return
    name, said = group.group_id, group.durable
    assert durable.consumers.get(name) is said, f"{name}: not what the log says"
    assert durable.is_consumer(name), f"{name}: of another type in the log"
    check_derived(said)
    _check_epochs(said)
    _check_timers(group)


def check_derived(group: DurableConsumerGroup) -> None:
    """What follows from the members is what their records say when they are read again."""
    store = ConsumerGroupStore()
    for fact in group.facts():
        store.replay(fact.key, fact.value, NO_PRODUCER_ID)
    fresh = store.by_group[group.group_id]
    for part in (
        "members",
        "names",
        "regex_topics",
        "regex_members",
        "assignors",
        "classic_members",
        "classic_protocols",
        "static_members",
        "holders",
        "stable",
        "targets",
        "without_current",
        "without_metadata",
    ):
        assert getattr(group, part) == getattr(fresh, part), f"{group.group_id}: {part}"
    assert len(group) == len(fresh), f"{group.group_id}: the number of keys"
    assert sorted(group.order) == sorted(group.members), f"{group.group_id}: the order of members"


def _check_epochs(group: DurableConsumerGroup) -> None:
    name = group.group_id
    assert group.assignment_epoch <= group.epoch, f"{name}: the target is of an epoch to come"
    held: set[tuple[bytes, int]] = set()
    for member in group.members.values():
        who = f"{name}: {member.member_id}"
        if member.member_epoch != LEAVING_STATIC_EPOCH:
            assert 0 <= member.member_epoch <= group.assignment_epoch, f"{who} is at {member.member_epoch}"
        assert not member.pending or member.state is MemberState.UNREVOKED_PARTITIONS, f"{who} gives up"
        for partitions in (member.assigned, member.pending):
            for topic_id, of_topic in partitions.items():
                assert of_topic, f"{who} has no partition of a topic"
                for partition in of_topic:
                    assert (topic_id, partition) not in held, f"{who}: {partition} is another's too"
                    held.add((topic_id, partition))
        _check_settled(group, member)


def _check_settled(group: DurableConsumerGroup, member: ConsumerMember) -> None:
    """A stable member has nothing that its target does not give it; less where it reads less than it did."""
    if member.is_reconciled_to(group.assignment_epoch):
        target = group.target_of(member.member_id)
        for topic_id, of_topic in member.assigned.items():
            assert of_topic.keys() <= set(target.get(topic_id, ())), (
                f"{group.group_id}: {member.member_id} has more than its target"
            )


def _check_timers(group: ConsumerGroup) -> None:
    name = group.group_id
    assert group.sessions.keys() == group.durable.members.keys(), f"{name}: sessions"
    for member_id, session in group.sessions.items():
        member = group.durable.members[member_id]
        assert session.timer_ms is not None, f"{name}: {member_id} has no timer"
        assert session.timer_ms <= session.deadline_ms, f"{name}: {member_id}"
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and not member.uses_classic_protocol and member.member_epoch != LEAVING_STATIC_EPOCH:
            assert session.rebalance_ms is not None, f"{name}: {member_id} may take forever"
