import pytest

from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import (
    GroupEmptied,
    GroupStabilized,
    LeaderReplaced,
    MembersEvicted,
    RebalanceStalled,
    RebalanceStarted,
)
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from protocol.records.group_record_schemas import GroupMetadataValue
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import CHANGED, joined_member, new_generation, stable_group, sync_all
from tests.group.subscriptions import subscription

JOIN = GroupTimerKey(GroupTimerKind.JOIN, GROUP)
SYNC = GroupTimerKey(GroupTimerKind.SYNC, GROUP)


def test_an_empty_group_waits_the_initial_delay_though_everyone_is_there() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3)
    coordinator.advance(2_999)
    assert ask.is_parked
    coordinator.advance(1)
    assert ask.joined.error_code == ErrorCode.NONE
    assert ask.joined.generation_id == 1


def test_a_member_that_comes_during_the_initial_delay_prolongs_it_once() -> None:
    coordinator = Coordinator()
    first = coordinator.join(version=3)
    coordinator.advance(2_000)
    second = coordinator.join(version=3)
    coordinator.advance(3_999)
    assert first.is_parked
    assert second.is_parked
    coordinator.advance(1)
    assert first.joined.generation_id == second.joined.generation_id == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout_however_many_come() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=3, rebalance=8_000)]
    for _ in range(10):
        coordinator.advance(790)
        joins.append(coordinator.join(version=3, rebalance=8_000))
    assert all(ask.is_parked for ask in joins)
    coordinator.advance(100)
    assert all(ask.joined.generation_id == 1 for ask in joins)


def test_without_an_initial_delay_the_join_phase_still_ends_by_its_timer() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=0))
    ask = coordinator.join(version=3)
    assert ask.is_parked
    coordinator.advance(0)
    assert ask.joined.generation_id == 1


def test_the_initial_delay_applies_every_time_that_the_group_starts_from_empty() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.leave_alone(member)
    ask = coordinator.join(version=3)
    coordinator.advance(2_999)
    assert ask.is_parked
    coordinator.advance(1)
    assert ask.joined.generation_id == 3


def test_the_join_phase_ends_as_soon_as_all_members_have_rejoined() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    newcomer = coordinator.join(version=3)
    assert newcomer.is_parked
    first, second = coordinator.join(follower), coordinator.join(leader)
    assert {ask.joined.generation_id for ask in (newcomer, first, second)} == {2}
    assert second.joined.leader == leader
    assert [one.member_id for one in second.joined.members] == [
        leader,
        follower,
        newcomer.joined.member_id,
    ]
    assert first.joined.members == newcomer.joined.members == []


def test_a_pending_member_holds_the_join_phase_open() -> None:
    coordinator = Coordinator()
    (leader,) = stable_group(coordinator, 1)
    pending = coordinator.join().joined.member_id
    ask = coordinator.join(leader)
    assert ask.is_parked
    other = coordinator.join(pending)
    assert ask.joined.generation_id == other.joined.generation_id == 2


def test_dynamic_members_that_do_not_rejoin_are_evicted_at_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    ask = coordinator.join(leader)
    for _ in range(7):
        coordinator.advance(8_000)
        coordinator.heartbeat(follower, 1)
    assert ask.is_parked
    coordinator.advance(4_000)
    assert ask.joined.generation_id == 2
    assert [one.member_id for one in ask.joined.members] == [leader]
    assert coordinator.find_events(MembersEvicted) == [
        MembersEvicted(GROUP, 1, (named(follower),), "join", silent_ms=(4_000,), connection_ids=(0,))
    ]
    assert coordinator.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_is_the_longest_of_the_members() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=3, rebalance=timeout, session=600_000) for timeout in (20_000, 90_000)]
    coordinator.advance(6_000)
    sync_all(coordinator, [ask.joined.member_id for ask in joins], 1)
    rejoined = coordinator.join(joins[0].joined.member_id, rebalance=20_000, session=600_000)
    coordinator.advance(89_999)
    assert rejoined.is_parked
    coordinator.advance(1)
    assert rejoined.joined.generation_id == 2


def test_version_0_has_no_rebalance_timeout_and_uses_the_session_timeout() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=0, session=30_000, rebalance=-1) for _ in range(2)]
    coordinator.advance(6_000)
    first, second = (ask.joined.member_id for ask in joins)
    sync_all(coordinator, [first, second], 1)
    rejoined = coordinator.join(first, version=0, session=30_000)
    coordinator.advance(25_000)
    coordinator.heartbeat(second, 1)
    coordinator.advance(4_999)
    assert rejoined.is_parked
    coordinator.advance(1)
    assert rejoined.joined.generation_id == 2


def test_a_leader_that_does_not_rejoin_is_replaced_by_the_oldest_member_that_did() -> None:
    coordinator = Coordinator()
    leader, second, third = stable_group(coordinator, 3)
    joins = [coordinator.join(third, protocols=CHANGED), coordinator.join(second)]
    for _ in range(8):
        coordinator.advance(7_500)
        coordinator.heartbeat(leader, 1)
    assert {ask.joined.leader for ask in joins} == {second}
    assert len(joins[1].joined.members) == 2
    assert coordinator.find_events(LeaderReplaced) == [LeaderReplaced(GROUP, 1, named(second), leader)]


def test_silent_static_members_stay_and_hold_the_group_when_nobody_else_is_left() -> None:
    coordinator = Coordinator()
    dynamic, static = stable_group(coordinator, 2, static=1)
    coordinator.leave_alone(dynamic)
    for _ in range(9):
        coordinator.advance(7_500)
        assert coordinator.heartbeat(static, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.find_events(RebalanceStalled)
    assert coordinator.state() == "PreparingRebalance"
    ask = coordinator.join(static, instance="instance-0")
    assert ask.joined.generation_id == 2


def test_a_stalled_rebalance_ends_when_the_session_of_the_last_silent_member_does() -> None:
    coordinator = Coordinator()
    dynamic, _ = stable_group(coordinator, 2, static=1)
    coordinator.leave_alone(dynamic)
    coordinator.advance(10_000)
    assert coordinator.state() == "Empty"
    assert coordinator.find_events(GroupEmptied) == [GroupEmptied(GROUP, 2)]


def test_a_stalled_rebalance_of_members_with_hardly_a_rebalance_timeout_does_not_spin() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=9, instance=name, rebalance=1) for name in "ab"]
    coordinator.advance(3_000)
    members = [ask.joined.member_id for ask in joins]
    sync_all(coordinator, members, 1)
    coordinator.leave(MemberIdentity(member_id="", group_instance_id="a"))
    coordinator.advance(9_000)
    assert 1 <= len(coordinator.find_events(RebalanceStalled)) <= 20


def test_a_silent_static_member_gets_a_place_in_the_next_generation() -> None:
    coordinator = Coordinator()
    dynamic, static = stable_group(coordinator, 2, static=1)
    ask = coordinator.join(dynamic)
    for _ in range(8):
        coordinator.advance(7_500)
        coordinator.heartbeat(static, 1, instance="instance-0")
    assert [one.member_id for one in ask.joined.members] == [dynamic, static]
    assert coordinator.heartbeat(static, 1, instance="instance-0") is ErrorCode.ILLEGAL_GENERATION


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(leader, 1, {leader: b"all"})
    for _ in range(8):
        coordinator.advance(7_500)
        coordinator.heartbeat(leader, 1)
        coordinator.heartbeat(follower, 1)
    assert coordinator.find_events(MembersEvicted) == [
        MembersEvicted(GROUP, 1, (named(follower),), "sync", silent_ms=(7_500,), connection_ids=(0,))
    ]
    assert coordinator.find_events(RebalanceStarted)[-1].trigger.cause is RebalanceCause.SYNC_EXPIRED
    assert coordinator.join(leader).joined.generation_id == 2


def test_a_leader_that_never_syncs_sends_its_waiting_followers_back() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    ask = coordinator.sync(follower, 1)
    for _ in range(8):
        coordinator.advance(7_500)
        coordinator.heartbeat(leader, 1)
    assert ask.synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert ask.synced.assignment == b""
    assert coordinator.join(follower).joined.leader == follower


def test_the_wait_for_syncs_is_over_when_all_have_synced() -> None:
    coordinator = Coordinator()
    new = new_generation(coordinator)
    assert SYNC in coordinator.timers
    sync_all(coordinator, new, 1)
    assert SYNC not in coordinator.timers


def test_a_rebalance_while_completing_takes_back_assignments_and_parked_syncs() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    ask = coordinator.sync(follower, 1)
    coordinator.join(version=3)
    assert ask.synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert ask.synced.protocol_type is None
    assert ask.synced.protocol_name is None
    assert all(one.member_assignment == b"" for one in coordinator.describe().members)
    assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_that_most_members_prefer_wins_among_those_that_all_support() -> None:
    coordinator = Coordinator()
    lists = (["sticky", "range", "rare"], ["range", "sticky"], ["sticky", "range"])
    joins = [coordinator.join(version=3, protocols=[(name, b"") for name in names]) for names in lists]
    coordinator.advance(6_000)
    assert {ask.joined.protocol_name for ask in joins} == {"sticky"}


@pytest.mark.parametrize(
    ("ballots", "winner"),
    [
        (["range", "sticky"], "sticky"),
        (["sticky", "range"], "sticky"),
        (["roundrobin", "range"], "range"),
        (["cooperative-sticky", "range", "sticky"], "sticky"),
        (["\u00fcber", "\U0001f600", "range"], "\u00fcber"),
        (["p@", *(f"p{number}" for number in range(9, 1, -1)), "p1", "pA", "pB"], "p@"),
        (["p@", *(f"p{number}" for number in range(9, 1, -1)), "p1", "pA", "pB", "pC"], "p1"),
    ],
)
def test_a_tie_of_votes_goes_to_the_first_in_the_order_of_kafkas_map(ballots: list[str], winner: str) -> None:
    coordinator = Coordinator()
    lists = [[name, *(other for other in ballots if other != name)] for name in ballots]
    joins = [coordinator.join(version=3, protocols=[(name, b"") for name in names]) for names in lists]
    coordinator.advance(12_000)
    assert {ask.joined.protocol_name for ask in joins} == {winner}


def test_the_leader_gets_the_metadata_of_the_selected_protocol_only() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocols=[("sticky", b"S"), ("range", b"R")])
    coordinator.join(version=3, protocols=[("range", b"r")])
    coordinator.advance(6_000)
    assert [one.metadata for one in ask.joined.members] == [b"R", b"r"]


def test_an_emptied_group_is_recorded_with_its_next_generation() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.leave_alone(member)
    assert coordinator.find_events(GroupEmptied) == [GroupEmptied(GROUP, 2)]
    value = coordinator.records[-1].value
    assert value == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=coordinator.now.wall_ms,
        members=[],
    )


def test_an_initial_rebalance_whose_members_all_left_ends_empty() -> None:
    coordinator = Coordinator()
    member = joined_member(coordinator)
    coordinator.leave_alone(member)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.advance(3_000)
    assert coordinator.state() == "Empty"


def test_a_timer_that_was_cancelled_or_moved_does_nothing_when_it_fires_all_the_same() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.fire(JOIN)
    coordinator.fire(SYNC)
    coordinator.fire(GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, "stranger"))
    coordinator.fire(GroupTimerKey(GroupTimerKind.JOIN, "nobody's"))
    coordinator.fire(GroupTimerKey(GroupTimerKind.SYNC, "nobody's"))
    coordinator.fire(GroupTimerKey(GroupTimerKind.HEARTBEAT, "nobody's", leader))
    coordinator.fire(GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, leader))
    assert coordinator.state() == "Stable"
    ask = coordinator.join(leader)
    coordinator.fire(JOIN)
    assert ask.is_parked
    coordinator.join(follower)
    coordinator.fire(SYNC)
    assert coordinator.state() == "CompletingRebalance"


def test_the_start_of_a_rebalance_says_why() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    ask = coordinator.join(instance="i-1", reason="I am new")
    newcomer = coordinator.describe().members[-1].member_id
    assert ask.is_parked
    event = coordinator.find_events(RebalanceStarted)[-1]
    assert (event.state, event.generation_id, event.trigger.cause) == (
        "Stable",
        1,
        RebalanceCause.MEMBER_JOINED,
    )
    for part in (newcomer, "i-1", "I am new"):
        assert part in event.trigger.reason


def test_the_end_of_a_join_phase_is_told() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator)
    assert coordinator.find_events(GroupStabilized) == [GroupStabilized(GROUP, 1, 2, leader, "range")]


def test_one_member_of_a_large_group_gets_the_list_of_all() -> None:
    coordinator = Coordinator()
    joins = [
        coordinator.join(version=3, protocols=[("range", subscription(f"topic-{number % 7}"))])
        for number in range(60)
    ]
    coordinator.advance(60_000)
    assert sorted(len(ask.joined.members) for ask in joins) == [0] * 59 + [60]


def test_metadata_that_is_no_subscription_is_passed_on_as_it_is() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocols=[("custom", b"\xff")])
    coordinator.advance(3_000)
    assert ask.joined.members[0].metadata == b"\xff"
