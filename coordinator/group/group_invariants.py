"""Invariants of the groups of a shard, which hold between calls."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from coordinator.core.outcome import NO_PRODUCER_ID
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_records import group_metadata, restore_group
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.consumer_group_store import ConsumerGroupStore
from coordinator.group.consumer.consumer_member import LEAVING_STATIC_EPOCH, ConsumerMember, MemberState
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.durable_groups import DurableGroups
from coordinator.group.group_types import GroupType
from coordinator.group.shard_groups import ShardGroups


def check_invariants(groups: ShardGroups) -> None:
    """Check all groups of a shard. Raises AssertionError naming the group."""
    waiters: set[int] = set()
    for group_id, group in groups.by_id.items():
        assert group_id == group.group_id, (group_id, group.group_id)
        INVARIANT_CHECKS[group.type](group, groups.durable, waiters)
    states = Counter(group.state for group in groups.by_id.values() if isinstance(group, ClassicGroup))
    assert groups.classic_states == states, "the classic groups by state"
    groups.durable.offsets.check_invariants()
    groups.durable.consumers.check_invariants()
    if not any(group.is_dead for group in groups.by_id.values()):
        for group_id in groups.durable.group_ids():
            assert group_id in groups.by_id, f"{group_id} is in the log but not in memory"


def check_classic_group(group: ClassicGroup, durable: DurableGroups, waiters: set[int]) -> None:
    """Check a classic group. Adds its parked requests to `waiters`, which must not have them yet."""
    _check_membership(group)
    _check_state(group)
    _check_waiting(group, waiters)
    if group.state is STABLE:
        _check_recorded(group, durable)


def _check_membership(group: ClassicGroup) -> None:
    name, members = group.group_id, group.members
    assert all(key == member.member_id for key, member in members.items()), name
    by_instance = {m.group_instance_id: m.member_id for m in members.values() if m.is_static}
    assert group.static_members == by_instance, f"{name}: static members"
    assert not set(members) & set(group.pending_members), f"{name}: both member and pending"
    assert set(group.pending_sync) <= set(members), f"{name}: a stranger is to sync"
    assert (group.leader_id in members) if members else (group.leader_id is None), f"{name}: the leader"
    counts: dict[str, int] = {}
    for member in members.values():
        for protocol, _ in member.protocols:
            counts[protocol] = counts.get(protocol, 0) + 1
    assert group.supported_protocols == counts, f"{name}: supported protocols"
    if members:
        assert group.protocol_type, f"{name}: members without a protocol type"
        assert len(members) in counts.values(), f"{name}: no protocol that all support"


def _check_state(group: ClassicGroup) -> None:
    name, state = group.group_id, group.state
    if state is EMPTY:
        assert not group.members, f"{name}: Empty with members"
        assert group.protocol_name is None, f"{name}: Empty with a protocol"
    if state in (COMPLETING_REBALANCE, STABLE):
        assert group.members, f"{name}: {state.value} without members"
        assert group.generation_id >= 0, f"{name}: generation {group.generation_id}"
        for member in group.members.values():
            assert not member.is_new, f"{name}: {member.member_id} is new after a join phase"
            assert member.metadata_for(group.protocol_name or "") is not None
    if state is not DEAD:
        assert (group.join_deadline_ms is not None) == (state is PREPARING_REBALANCE), f"{name}: join timer"
        assert (group.sync_deadline_ms is not None) == bool(group.pending_sync), f"{name}: sync timer"
        is_waiting = state is PREPARING_REBALANCE or bool(group.pending_sync)
        assert (group.rebalance is not None) == is_waiting, f"{name}: {state.value}, and its rebalance"
    if state in (EMPTY, STABLE):
        assert not group.departed, f"{name}: {state.value}, and departures not told of"
        assert all(member.is_settled for member in group.members.values()), (
            f"{name}: {state.value}, unsettled"
        )
    if state is not PREPARING_REBALANCE:
        assert group.initial_join is None, f"{name}: {state.value} with an initial delay"
    if group.pending_sync and state is not DEAD:
        assert state in (COMPLETING_REBALANCE, STABLE), f"{name}: {state.value} with a pending sync"


def _check_waiting(group: ClassicGroup, waiters: set[int]) -> None:
    name, state = group.group_id, group.state
    joining = [m for m in group.members.values() if m.is_awaiting_join]
    syncing = [m for m in group.members.values() if m.is_awaiting_sync]
    assert group.awaiting_join == len(joining), f"{name}: members awaiting join"
    assert not joining or state is PREPARING_REBALANCE, f"{name}: a parked JoinGroup in {state.value}"
    assert not syncing or state is COMPLETING_REBALANCE, f"{name}: a parked SyncGroup in {state.value}"
    parked = [m.join_waiter for m in joining] + [m.sync_waiter for m in syncing]
    for waiter in parked:
        assert waiter is not None, name
        assert waiter not in waiters, f"{name}: waiter {waiter} is parked twice"
        waiters.add(waiter)
    if state is DEAD:
        return
    for member in group.members.values():
        # Each member that must send a request has a timer, at the latest at its deadline.
        if not member.is_exempt_from_session:
            assert member.timer_deadline_ms is not None, f"{name}: {member.member_id} has no timer"
            assert member.timer_deadline_ms <= member.session_deadline_ms, f"{name}: {member.member_id}"


def _check_recorded(group: ClassicGroup, durable: DurableGroups) -> None:
    recorded = durable.metadata.find_metadata(group.group_id)
    assert recorded is not None, f"{group.group_id}: Stable but not in the log"
    # Other software may omit fields that a load fills in, so the comparison uses the loaded form.
    loaded, actual = group_metadata(restore_group(group.group_id, recorded)), group_metadata(group)
    loaded.current_state_timestamp = actual.current_state_timestamp
    for value in (loaded, actual):
        value.members.sort(key=lambda member: member.member_id)
    assert loaded == actual, f"{group.group_id}: the log says otherwise"


def check_consumer_group(group: ConsumerGroup, durable: DurableGroups, waiters: set[int]) -> None:
    """Check a consumer group. Its parked requests are in the shard and wait for a target."""
    if group.is_dead:
        return
    name, recorded = group.group_id, group.durable
    assert durable.consumers.find_group(name) is recorded, f"{name}: not what the log says"
    assert durable.find_group_type(name) is group.type, f"{name}: of another type in the log"
    check_derived(recorded)
    _check_epochs(recorded)
    _check_timers(group)


def check_derived(group: DurableConsumerGroup) -> None:
    """Check that the derived state equals the state derived from the members' records."""
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
        prefix = f"{name}: {member.member_id}"
        if member.member_epoch != LEAVING_STATIC_EPOCH:
            assert 0 <= member.member_epoch <= group.assignment_epoch, f"{prefix} is at {member.member_epoch}"
        assert not member.pending or member.state is MemberState.UNREVOKED_PARTITIONS, f"{prefix} gives up"
        for partitions in (member.assigned, member.pending):
            for topic_id, of_topic in partitions.items():
                assert of_topic, f"{prefix} has no partition of a topic"
                for partition in of_topic:
                    assert (topic_id, partition) not in held, f"{prefix}: {partition} is another's too"
                    held.add((topic_id, partition))
        _check_settled(group, member)


def _check_settled(group: DurableConsumerGroup, member: ConsumerMember) -> None:
    """Check that a stable member owns only partitions of its target. It owns fewer after dropping subscriptions."""
    if member.is_reconciled_to(group.assignment_epoch):
        target = group.find_target(member.member_id)
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


INVARIANT_CHECKS: Final[dict[GroupType, Callable[[Any, DurableGroups, set[int]], None]]] = {
    GroupType.CLASSIC: check_classic_group,
    GroupType.CONSUMER: check_consumer_group,
}
"""The check of each type of group. It takes the group, the durable state and the waiters of other groups."""
