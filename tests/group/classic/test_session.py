from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import MemberExpired, RebalanceStarted
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from protocol.error_codes import ErrorCode
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import new_generation, stable_group


def test_a_silent_member_expires_after_its_session_timeout_and_the_rest_rebalance() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.advance(5_000)
    coordinator.heartbeat(leader, 1)
    coordinator.advance(4_999)
    assert coordinator.state() == "Stable"
    coordinator.advance(1)
    assert coordinator.find_events(MemberExpired) == [
        MemberExpired(GROUP, 1, named(follower), False, is_new=False, silent_ms=10_000, timeout_ms=10_000)
    ]
    assert coordinator.find_events(RebalanceStarted)[-1].trigger.cause is RebalanceCause.SESSION_EXPIRED
    assert coordinator.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_for_ever_with_one_timer() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    for _ in range(100):
        coordinator.advance(3_000)
        assert coordinator.heartbeat(member, 1) is ErrorCode.NONE
    assert [key for key in coordinator.timers if key.kind is GroupTimerKind.HEARTBEAT] == [
        GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, member)
    ]
    coordinator.advance(9_999)
    assert coordinator.state() == "Stable"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_commits_keep_a_member_too() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    for _ in range(5):
        coordinator.advance(9_000)
        assert coordinator.commit(member, 1) is ErrorCode.NONE
    assert coordinator.state() == "Stable"


def test_a_shorter_session_timeout_holds_from_the_next_answer_on() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, session=600_000)
    coordinator.advance(3_000)
    member = ask.joined.member_id
    coordinator.sync(member, 1)
    again = coordinator.join(member, session=6_000)
    assert again.joined.generation_id == 2
    coordinator.advance(5_999)
    assert coordinator.state() == "CompletingRebalance"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_a_pending_member_expires_and_lets_a_rebalance_go_on() -> None:
    coordinator = Coordinator()
    (leader,) = stable_group(coordinator, 1)
    pending = coordinator.join(session=6_000).joined.member_id
    ask = coordinator.join(leader)
    coordinator.advance(5_999)
    assert ask.is_parked
    coordinator.advance(1)
    assert ask.joined.generation_id == 2
    assert coordinator.find_events(MemberExpired) == [
        MemberExpired(GROUP, 1, named(pending), True, is_new=False, silent_ms=6_000, timeout_ms=6_000)
    ]
    assert coordinator.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_expiry_of_a_pending_member_does_not_rebalance_a_stable_group() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.join(session=6_000)
    coordinator.heartbeat(member, 1)
    coordinator.advance(6_000)
    assert coordinator.find_events(MemberExpired)
    assert coordinator.state() == "Stable"


def test_a_member_whose_join_waits_does_not_expire_before_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    ask = coordinator.join(leader)
    for _ in range(5):
        coordinator.advance(9_000)
        coordinator.heartbeat(follower, 1)
    assert ask.is_parked
    coordinator.join(follower)
    coordinator.advance(9_999)
    assert coordinator.state() == "CompletingRebalance"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_a_member_whose_sync_waits_does_not_expire() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    ask = coordinator.sync(follower, 1)
    for _ in range(5):
        coordinator.advance(9_000)
        coordinator.heartbeat(leader, 1)
    coordinator.sync(leader, 1, {follower: b"f"})
    assert ask.synced.assignment == b"f"
    coordinator.advance(9_999)
    assert coordinator.state() == "Stable"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_a_new_member_waits_at_most_five_minutes_for_its_first_generation() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, rebalance=600_000, session=1_800_000)
    coordinator.advance(3_000)
    coordinator.sync(ask.joined.member_id, 1)
    newcomer = coordinator.join(version=3, rebalance=600_000)
    coordinator.advance(299_999)
    assert newcomer.is_parked
    coordinator.advance(1)
    assert newcomer.joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer.joined.member_id == ""
    assert coordinator.state() == "PreparingRebalance"


def test_an_expiry_ends_an_initial_rebalance_when_all_others_are_there() -> None:
    coordinator = Coordinator(group_config(group_initial_rebalance_delay_ms=20_000))
    ask = coordinator.join(version=3)
    coordinator.advance(1_000)
    coordinator.join(session=6_000)
    later = coordinator.join(version=3)
    coordinator.advance(5_999)
    assert ask.is_parked
    coordinator.advance(1)
    assert ask.joined.generation_id == later.joined.generation_id == 1


def test_the_leaders_expiry_makes_the_oldest_other_member_lead() -> None:
    coordinator = Coordinator()
    _, second, third = stable_group(coordinator, 3)
    for _ in range(2):
        coordinator.advance(5_000)
        coordinator.heartbeat(second, 1)
        coordinator.heartbeat(third, 1)
    joins = [coordinator.join(third), coordinator.join(second)]
    assert {ask.joined.leader for ask in joins} == {second}
