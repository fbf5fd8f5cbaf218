"""The members that a group waits for, and the deadlines of these waits."""

from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.event_details import AwaitedMember, AwaitedRequest
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import CHANGED, new_generation, stable_group, sync_all


def whom(coordinator: Coordinator) -> tuple[AwaitedMember, ...]:
    group = coordinator.shard._groups.find_typed_group(ClassicGroup, GROUP)
    assert group is not None, GROUP
    return group.find_awaited_members(coordinator.now.monotonic_ms)


def test_a_stable_group_waits_for_nobody() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    assert whom(coordinator) == ()


def test_members_that_have_not_rejoined_are_awaited_until_their_session_ends() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    coordinator.advance(4_000)
    assert whom(coordinator) == (AwaitedMember(named(follower), AwaitedRequest.JOIN, 4_000, 6_000, 6_000),)


def test_one_that_is_heard_is_awaited_until_the_rebalance_timeout_at_most() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    for _ in range(7):
        coordinator.advance(8_000)
        coordinator.heartbeat(follower, 1)
    coordinator.advance(1_000)
    (one,) = whom(coordinator)
    assert (one.silent_ms, one.session_left_ms, one.left_ms) == (1_000, 9_000, 60_000 - 57_000)


def test_with_nobody_else_there_only_its_session_ends_the_wait_for_a_static_member() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(instance=name, rebalance=2_000) for name in "ab"]
    coordinator.advance(3_000)
    first, second = (ask.joined.member_id for ask in joins)
    coordinator.sync(first, 1, {})
    coordinator.sync(second, 1)
    coordinator.leave_alone(first)
    assert whom(coordinator) == (AwaitedMember(named(second, "b"), AwaitedRequest.JOIN, 0, 10_000, 10_000),)


def test_a_pending_member_is_awaited_until_its_id_is_forgotten() -> None:
    coordinator = Coordinator()
    (leader,) = stable_group(coordinator, 1)
    pending = coordinator.join(session=6_000, client_id="late").joined.member_id
    coordinator.advance(1_000)
    coordinator.join(leader)
    coordinator.advance(2_000)
    name = named(pending, client_id="late")
    assert whom(coordinator) == (AwaitedMember(name, AwaitedRequest.FIRST_JOIN, 3_000, 3_000, 3_000),)


def test_an_initial_rebalance_waits_for_time_and_not_for_anybody() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=20_000))
    coordinator.join(version=3)
    coordinator.join()
    assert coordinator.state() == "PreparingRebalance"
    assert whom(coordinator) == ()


def test_without_an_assignment_the_leader_is_awaited_and_who_has_not_asked() -> None:
    coordinator = Coordinator()
    leader, second, third = new_generation(coordinator, 3)
    coordinator.sync(third, 1)
    coordinator.advance(3_000)
    assert [(one.member.member_id, one.request, one.left_ms) for one in whom(coordinator)] == [
        (leader, AwaitedRequest.ASSIGNMENT, 7_000),
        (second, AwaitedRequest.SYNC, 7_000),
    ]


def test_the_leader_comes_first_also_where_it_is_not_the_oldest() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(instance=name, rebalance=8_000) for name in "ab"]
    coordinator.advance(6_000)
    first, second = (ask.joined.member_id for ask in joins)
    sync_all(coordinator, [first, second], 1)
    coordinator.join(second, instance="b", rebalance=8_000, protocols=CHANGED)
    coordinator.advance(8_000)
    assert [(one.member.member_id, one.request) for one in whom(coordinator)] == [
        (second, AwaitedRequest.ASSIGNMENT),
        (first, AwaitedRequest.SYNC),
    ]


def test_with_the_assignment_there_followers_are_awaited_that_have_not_asked_for_it() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(leader, 1, {leader: b"all"})
    assert coordinator.state() == "Stable"
    assert [(one.member.member_id, one.request) for one in whom(coordinator)] == [
        (follower, AwaitedRequest.SYNC)
    ]
    coordinator.sync(follower, 1)
    assert whom(coordinator) == ()
