"""Clock commands: expire a session, keep sessions alive, and advance time."""

from random import Random

import pytest

from coordinator.core.outcome import Now
from coordinator.core.wire_name import get_wire_name
from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import (
    GroupDeleted,
    MemberExpired,
    MembersEvicted,
    OffsetsExpired,
    RebalanceStarted,
)
from coordinator.group.group_requests import (
    CommandResult,
    ExpiredOffsets,
    ExpireMember,
    ExpireOffsets,
    ExtendSessions,
    GroupTimerKey,
    GroupTimerKind,
    ShiftDeadlines,
)
from protocol.error_codes import ErrorCode
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.entries import through_bytes
from tests.group.new_shard import new_shard
from tests.group.stories import joined_member, new_generation, stable_group

DAY_MS = 24 * 3_600_000


def expire(coordinator: Coordinator, member_id: str, group: str = GROUP) -> ErrorCode:
    return coordinator.send(ExpireMember(group, member_id), 0).answer(CommandResult).error


# Sessions that end at once


def test_a_session_that_is_ended_has_the_events_of_one_that_ends() -> None:
    histories = []
    for is_on_purpose in (True, False):
        coordinator = Coordinator()
        leader, follower = stable_group(coordinator)
        coordinator.events.clear()
        if is_on_purpose:
            assert expire(coordinator, follower) is ErrorCode.NONE
        else:
            coordinator.advance(9_000)
            coordinator.heartbeat(leader, 1)
            coordinator.advance(1_000)
        assert coordinator.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        (started,) = coordinator.find_events(RebalanceStarted)
        (expired,) = coordinator.find_events(MemberExpired)
        assert started.trigger.cause is RebalanceCause.SESSION_EXPIRED
        assert expired.silent_ms == (0 if is_on_purpose else 10_000)
        histories.append([get_wire_name(type(event)) for event in coordinator.events])
        assert coordinator.join(leader).joined.generation_id == 2
    assert histories[0] == histories[1]


def test_an_id_that_is_pending_is_forgotten_and_no_longer_waited_for() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    pending = coordinator.join().joined.member_id
    rejoined = coordinator.join(member)
    assert rejoined.is_parked
    assert expire(coordinator, pending) is ErrorCode.NONE
    assert rejoined.joined.generation_id == 2
    assert coordinator.find_events(MemberExpired)[-1].pending
    assert coordinator.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_parked_join_is_answered_when_its_session_is_ended() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    parked = coordinator.join(leader)
    assert parked.is_parked
    assert expire(coordinator, leader) is ErrorCode.NONE
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert parked.joined.member_id == ""
    assert coordinator.join(follower).joined.generation_id == 2


def test_a_parked_sync_is_answered_when_its_session_is_ended() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    parked = coordinator.sync(follower, 1)
    assert expire(coordinator, follower) is ErrorCode.NONE
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("group", [GROUP, "nobody's"])
def test_who_is_no_member_cannot_expire(group: str) -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    assert expire(coordinator, "stranger", group) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not coordinator.find_events(MemberExpired)


# Sessions that last


def test_whoever_is_kept_alive_outlives_the_others() -> None:
    coordinator = Coordinator()
    kept, lost = stable_group(coordinator)
    coordinator.send(ExtendSessions(GROUP, [kept, "stranger"], coordinator.now.monotonic_ms + 30_000), 0)
    coordinator.send(ExtendSessions(GROUP, [kept], coordinator.now.monotonic_ms), 0)
    coordinator.advance(10_000)
    assert [event.member.member_id for event in coordinator.find_events(MemberExpired)] == [lost]
    coordinator.advance(19_999)
    assert len(coordinator.find_events(MemberExpired)) == 1
    coordinator.advance(1)
    assert [event.member.member_id for event in coordinator.find_events(MemberExpired)] == [lost, kept]


def test_a_member_that_is_owed_an_answer_is_left_as_it_is() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    assert coordinator.join(leader).is_parked
    coordinator.send(ExtendSessions(GROUP, [leader], coordinator.now.monotonic_ms + 10**6), 0)
    coordinator.advance(10_000)
    assert coordinator.state() == "CompletingRebalance"
    assert coordinator.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.advance(10_000)
    assert coordinator.state() == "Empty", "its session began anew with the answer"


# Clocks that move


@pytest.mark.parametrize("by_ms", [-500_000, 0, 10**9])
@pytest.mark.parametrize("seed", range(20))
def test_a_group_whose_clock_is_set_goes_on_as_one_whose_clock_is_not(seed: int, by_ms: int) -> None:
    """Play the same requests with and without a change of the clock: all deadlines end after the same durations."""
    histories = []
    for moved_ms in (0, by_ms):
        chance, coordinator = Random(seed), Coordinator()
        members = (stable_group if seed % 3 else new_generation)(coordinator, 3)
        for _ in range(chance.randrange(6)):
            coordinator.advance(chance.randrange(4_000))
            member = chance.choice(members)
            if chance.random() < 0.5 or seed % 3 == 0:
                coordinator.heartbeat(member, 1)
            else:
                coordinator.join(member)
        if seed % 3 and chance.random() < 0.5:
            joined_member(coordinator) if chance.random() < 0.5 else coordinator.join()
        at = coordinator.now
        coordinator.now = Now(at.monotonic_ms + moved_ms, at.wall_ms)
        coordinator.events.clear()
        coordinator.send(ShiftDeadlines([GROUP, "nobody's"], moved_ms), 0)
        assert {key for key, _ in coordinator.shard.list_deadlines(GROUP).items()} <= set(coordinator.timers)
        seen = []
        for _ in range(40):
            coordinator.advance(2_500)
            if seed % 3 == 0:
                for member in members:
                    coordinator.heartbeat(member, 1)
            seen.append(
                [(get_wire_name(type(event)), getattr(event, "member", None)) for event in coordinator.events]
            )
            coordinator.events.clear()
        histories.append((seen, coordinator.state()))
    assert histories[0] == histories[1]


def test_deadlines_are_those_at_which_something_happens() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.advance(4_000)
    coordinator.heartbeat(follower, 1)
    now_ms = coordinator.now.monotonic_ms
    assert coordinator.shard.list_deadlines(GROUP) == {
        GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, leader): now_ms + 6_000,
        GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, follower): now_ms + 10_000,
    }
    assert coordinator.join(leader).is_parked
    kinds = {key.kind for key in coordinator.shard.list_deadlines(GROUP)}
    assert kinds == {GroupTimerKind.HEARTBEAT, GroupTimerKind.JOIN, GroupTimerKind.REPORT}
    assert GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, leader) not in coordinator.shard.list_deadlines(
        GROUP
    )
    assert coordinator.shard.list_deadlines("nobody's") == {}


# Retention


def expire_offsets(
    coordinator: Coordinator, ahead_ms: int, *topics: str, group: str = GROUP
) -> ExpiredOffsets:
    return coordinator.send(ExpireOffsets(group, topics, ahead_ms), 0).answer(ExpiredOffsets)


def test_retention_looks_at_one_group_as_if_it_were_later() -> None:
    coordinator = Coordinator()
    for group in (GROUP, "other"):
        for topic, partition in (("foo", 0), ("foo", 1), ("bar", 0)):
            coordinator.commit(group=group, topic=topic, partition=partition)
    assert expire_offsets(coordinator, 6 * DAY_MS) == ExpiredOffsets()
    assert expire_offsets(coordinator, 8 * DAY_MS, "bar") == ExpiredOffsets(partitions={"bar": [0]})
    assert expire_offsets(coordinator, 8 * DAY_MS) == ExpiredOffsets(
        partitions={"foo": [0, 1]}, is_group_deleted=True
    )
    assert [event.partitions for event in coordinator.find_events(OffsetsExpired)] == [1, 2]
    assert [event.group_id for event in coordinator.find_events(GroupDeleted)] == [GROUP]
    assert len(coordinator.fetch(group="other")) == 3
    assert expire_offsets(coordinator, 0).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_members_read_is_kept() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.commit(member, 1)
    coordinator.commit(member, 1, topic="bar")
    assert expire_offsets(coordinator, 100 * DAY_MS) == ExpiredOffsets(partitions={"bar": [0]})


def test_the_sweep_judges_each_group_by_its_own_time() -> None:
    coordinator = Coordinator()
    coordinator.commit(group="late")
    coordinator.commit(group="now")

    def now_of(group_id: str, now: Now) -> Now:
        return Now(now.monotonic_ms, now.wall_ms + 8 * DAY_MS) if group_id == "late" else now

    outcome = coordinator.shard.fire_timer(
        GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS), coordinator.now, now_of
    )
    assert [type(event) for event in outcome.events] == [OffsetsExpired, GroupDeleted]
    assert coordinator.shard.list_group_ids() == ["now"]
    next_ms = coordinator.now.monotonic_ms + coordinator.config.offsets_retention_check_interval_ms
    assert outcome.timers == {GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS): next_ms}


def test_groups_are_loaded_each_at_its_own_time() -> None:
    coordinator = Coordinator(group_config(group_max_size=1))
    (member,) = stable_group(coordinator, 1)
    shard = new_shard(coordinator.config)
    for record in coordinator.records:
        shard.replay(through_bytes(record))
    outcome = shard.on_loaded(coordinator.now, lambda _, now: Now(now.monotonic_ms + 5_000_000, now.wall_ms))
    ends_ms = coordinator.now.monotonic_ms + 5_000_000 + 10_000
    assert outcome.timers[GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, member)] == ends_ms
    assert not any(isinstance(event, MembersEvicted) for event in outcome.events)
