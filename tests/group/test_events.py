"""The events of a group suffice to reconstruct its history, as ledgers and waits do."""

from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import (
    AssignmentFetched,
    GroupEvent,
    MemberRejoined,
    MemberToldToRejoin,
    RebalanceCompleted,
    RebalanceStarted,
    StaticMemberReplaced,
)
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.group.ask import named
from tests.group.coordinator import Coordinator
from tests.group.stories import new_generation, stable_group, sync_all


def about(coordinator: Coordinator, kind: type[GroupEvent]) -> list[tuple[int | None, str]]:
    """Return generation and member of the events of a class."""
    return [
        (event.generation_id, event.member.member_id)
        for event in coordinator.find_events(kind)
        if event.member
    ]


def test_who_began_a_rebalance_who_was_told_and_came_and_who_got_what() -> None:
    coordinator = Coordinator()
    leader, follower, leaver = stable_group(coordinator, 3)
    coordinator.events.clear()
    coordinator.leave(MemberIdentity(member_id=leaver))
    assert about(coordinator, RebalanceStarted) == [(1, leaver)]
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.sync(leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert about(coordinator, MemberToldToRejoin) == [(1, follower), (1, leader)]
    coordinator.join(leader)
    coordinator.join(follower)
    assert about(coordinator, MemberRejoined) == [(1, leader), (1, follower)]
    coordinator.sync(leader, 2, {leader: b"all", "stranger": b"more"})
    coordinator.sync(follower, 2)
    assert about(coordinator, AssignmentFetched) == [(2, leader), (2, follower)]
    (completed,) = coordinator.find_events(RebalanceCompleted)
    assert about(coordinator, RebalanceCompleted) == [(2, leaver)]
    assert [(one.member.member_id, one.before, one.assignment) for one in completed.members] == [
        (leader, b"for " + leader.encode(), b"all"),
        (follower, b"for " + follower.encode(), b""),
    ]
    assert [(one.member.member_id, one.assignment) for one in completed.gone] == [
        (leaver, b"for " + leaver.encode())
    ]


def test_what_members_had_is_known_over_a_restart_and_attempts() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.restart()
    coordinator.join(leader)
    coordinator.join(follower)
    newcomer = coordinator.join(version=3)
    coordinator.join(leader)
    coordinator.join(follower)
    sync_all(coordinator, [leader, follower, newcomer.joined.member_id], 3)
    (completed,) = coordinator.find_events(RebalanceCompleted)
    assert [one.before for one in completed.members] == [
        b"for " + leader.encode(), b"for " + follower.encode(), None,
    ]  # fmt: skip


def test_syncs_that_are_sent_back_are_told_of() -> None:
    coordinator = Coordinator()
    _, follower = new_generation(coordinator)
    parked = coordinator.sync(follower, 1)
    coordinator.join(version=3)
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert about(coordinator, MemberToldToRejoin) == [(1, follower)]


def test_a_static_member_that_was_restarted_goes_by_the_client_that_did_it() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(version=3, instance="i", client_id="alice"), coordinator.join(version=3)]
    coordinator.advance(6_000)
    assert joins[0].joined.generation_id == 1
    coordinator.join(instance="i", client_id="bob")
    (replaced,) = coordinator.find_events(StaticMemberReplaced)
    assert replaced.member.client_id == "bob"
    started = coordinator.find_events(RebalanceStarted)[-1]
    assert started.trigger.cause is RebalanceCause.STATIC_MEMBER_REPLACED
    assert started.member == replaced.member == named(replaced.member.member_id, "i", client_id="bob")
