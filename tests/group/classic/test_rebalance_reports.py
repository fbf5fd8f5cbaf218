"""Events about a rebalance: while it lasts, and at its end."""

from coordinator.group.classic.classic_member import FIRST_REPORT_MS
from coordinator.group.event_details import Departure, DepartureCause, MemberAssignment, RebalanceCause
from coordinator.group.group_event_types import RebalanceCompleted, RebalanceWaits
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from protocol.messages.leave_group import MemberIdentity
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import new_generation, stable_group, sync_all

REPORT = GroupTimerKey(GroupTimerKind.REPORT, GROUP)


def completed(coordinator: Coordinator) -> RebalanceCompleted:
    return coordinator.find_events(RebalanceCompleted)[-1]


def stay(coordinator: Coordinator, duration_ms: int, *members: str, generation: int = 1) -> None:
    """Advance the clock while these members send heartbeats."""
    for _ in range(duration_ms // 1_000):
        coordinator.advance(1_000)
        for member in members:
            coordinator.heartbeat(member, generation)


def test_a_rebalance_that_lasts_tells_whom_it_waits_for() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    stay(coordinator, FIRST_REPORT_MS - 1_000, follower)
    assert not coordinator.find_events(RebalanceWaits)
    stay(coordinator, 41_000, follower)
    events = coordinator.find_events(RebalanceWaits)
    assert [event.waited_ms for event in events] == [10_000, 20_000, 40_000]
    assert [event.left_ms for event in events] == [50_000, 40_000, 20_000]
    assert {one.member for event in events for one in event.awaited} == {named(follower)}
    assert events[0].trigger is not None
    assert events[0].trigger.cause is RebalanceCause.LEADER_REJOINED
    coordinator.join(follower)
    sync_all(coordinator, [leader, follower], 2)
    assert REPORT not in coordinator.timers


def test_one_that_lasts_for_an_hour_tells_of_it_less_and_less_often() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader, rebalance=7_200_000)
    stay(coordinator, 3_600_000, follower)
    waited_s = [event.waited_ms // 1_000 for event in coordinator.find_events(RebalanceWaits)]
    assert waited_s == [10, 20, 40, 80, 160, 320, *range(620, 3_600, 300)]


def test_an_initial_rebalance_tells_that_it_waits_for_others_to_come() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=15_000))
    coordinator.join(version=3)
    coordinator.advance(14_000)
    (event,) = coordinator.find_events(RebalanceWaits)
    assert (event.is_initial, event.members, event.awaited, event.left_ms) == (True, 1, (), 5_000)


def test_a_short_initial_rebalance_is_no_news() -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 3)
    assert not coordinator.find_events(RebalanceWaits)


def test_a_leader_that_does_not_assign_is_told_of() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=0))
    leader, follower = new_generation(coordinator)
    coordinator.sync(follower, 1)
    stay(coordinator, 10_000, leader)
    (event,) = coordinator.find_events(RebalanceWaits)
    assert event.state == "CompletingRebalance"
    assert [one.member for one in event.awaited] == [named(leader)]


def test_a_stable_group_tells_who_does_not_ask_for_its_assignment() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(leader, 1, {leader: b"all"})
    stay(coordinator, 10_000, leader, follower)
    (event,) = coordinator.find_events(RebalanceWaits)
    assert (event.state, event.trigger, event.waited_ms, event.left_ms) == ("Stable", None, 10_000, 50_000)
    assert [one.member for one in event.awaited] == [named(follower)]
    coordinator.sync(follower, 1)
    stay(coordinator, 30_000, leader, follower)
    assert len(coordinator.find_events(RebalanceWaits)) == 1


def test_attempts_of_one_rebalance_do_not_put_the_report_off() -> None:
    coordinator = Coordinator()
    members = new_generation(coordinator, 1)
    for generation in (1, 2):
        stay(coordinator, 3_000, *members, generation=generation)
        newcomer = coordinator.join(version=3)
        for member in members:
            coordinator.join(member)
        members.append(newcomer.joined.member_id)
    (event,) = coordinator.find_events(RebalanceWaits)
    assert (event.waited_ms, event.attempts) == (10_000, 2)


def test_a_report_that_fires_too_early_or_for_nobody_is_none() -> None:
    coordinator = Coordinator()
    leader, _ = stable_group(coordinator)
    coordinator.fire(REPORT)
    coordinator.fire(GroupTimerKey(GroupTimerKind.REPORT, "nobody's"))
    coordinator.join(leader)
    coordinator.advance(5_000)
    coordinator.fire(REPORT)
    assert not coordinator.find_events(RebalanceWaits)
    coordinator.advance(5_000)
    assert coordinator.find_events(RebalanceWaits)


def test_the_first_rebalance_is_summed_up_with_who_got_what() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    event = completed(coordinator)
    assert (event.state, event.from_state, event.generation_id) == ("Stable", "Empty", 1)
    assert (event.leader_id, event.protocol_type, event.protocol_name) == (leader, "consumer", "range")
    assert event.trigger.cause is RebalanceCause.MEMBER_JOINED
    assert event.trigger.actor == named(leader)
    assert event.members == tuple(
        MemberAssignment(named(member), None, b"for " + member.encode(), RANGE[0][1])
        for member in (leader, follower)
    )
    assert event.gone == ()
    assert event.ended_ms - event.started_ms == event.join_ms + event.sync_ms == 6_000


def test_a_summary_names_who_is_gone_and_why_and_who_is_new() -> None:
    coordinator = Coordinator()
    leader, silent, leaver = stable_group(coordinator, 3)
    coordinator.join(leader, reason="rebalancing")
    newcomer = coordinator.join(version=3, client_id="new")
    coordinator.leave(MemberIdentity(member_id=leaver, reason="scaling down"))
    coordinator.advance(10_000)
    assert newcomer.joined.generation_id == 2
    sync_all(coordinator, [leader, newcomer.joined.member_id], 2)
    event = completed(coordinator)
    assert event.trigger.cause is RebalanceCause.LEADER_REJOINED
    assert event.trigger.client_reason == "rebalancing"
    assert event.gone == (
        Departure(named(leaver), DepartureCause.LEFT, b"for " + leaver.encode()),
        Departure(named(silent), DepartureCause.SESSION_EXPIRED, b"for " + silent.encode()),
    )
    assert [(one.member.client_id, one.is_new) for one in event.members] == [("client", False), ("new", True)]
    assert event.last_joined is None, "an expiry ended the wait, not a member that came late"
    coordinator.join(leader)
    coordinator.join(newcomer.joined.member_id)
    sync_all(coordinator, [leader, newcomer.joined.member_id], 3)
    assert completed(coordinator).gone == ()
    assert not any(one.is_new for one in completed(coordinator).members)


def test_a_summary_says_where_the_time_went_and_who_came_last() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    stay(coordinator, 4_000, follower)
    coordinator.join(follower)
    stay(coordinator, 2_000, leader, follower, generation=2)
    sync_all(coordinator, [leader, follower], 2)
    event = completed(coordinator)
    assert (event.join_ms, event.sync_ms, event.ended_ms - event.started_ms) == (4_000, 2_000, 6_000)
    assert event.last_joined == named(follower)


def test_a_rebalance_that_begins_again_has_one_summary() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.advance(1_000)
    newcomer = coordinator.join(version=3, client_id="new")
    coordinator.advance(1_000)
    coordinator.join(leader)
    coordinator.join(follower)
    sync_all(coordinator, [leader, follower, newcomer.joined.member_id], 2)
    (event,) = coordinator.find_events(RebalanceCompleted)
    assert (event.attempts, event.generation_id) == (2, 2)
    assert event.trigger.actor == named(leader)
    assert event.latest.actor == named(newcomer.joined.member_id, client_id="new")
    assert (event.join_ms, event.sync_ms) == (6_000 + 1_000, 1_000)
    assert all(one.is_new for one in event.members)


def test_a_group_that_empties_is_summed_up_too() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.leave(MemberIdentity(member_id=member, reason="the consumer is being closed"))
    event = completed(coordinator)
    assert (event.state, event.generation_id, event.members) == ("Empty", 2, ())
    assert event.trigger.client_reason == "the consumer is being closed"
    assert event.gone == (Departure(named(member), DepartureCause.LEFT, b"for " + member.encode()),)


def test_a_restarted_static_member_is_no_rebalance_and_neither_gone_nor_new_in_the_next() -> None:
    coordinator = Coordinator()
    leader, _ = stable_group(coordinator, 2, static=1)
    before = len(coordinator.find_events(RebalanceCompleted))
    successor = coordinator.join(instance="instance-0").joined.member_id
    assert len(coordinator.find_events(RebalanceCompleted)) == before
    coordinator.join(leader)
    coordinator.join(successor, instance="instance-0")
    sync_all(coordinator, [leader], 2)
    event = completed(coordinator)
    assert (event.gone, [one.is_new for one in event.members]) == ((), [False, False])


def test_members_that_were_loaded_are_not_new() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.restart()
    coordinator.join(leader)
    coordinator.join(follower)
    sync_all(coordinator, [leader, follower], 2)
    assert not any(one.is_new for one in completed(coordinator).members)
