from protocol.error_codes import ErrorCode
from tests.group.coordinator import Coordinator
from tests.group.stories import stable_group


def test_a_group_id_is_required() -> None:
    assert Coordinator().heartbeat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID


def test_a_static_member_may_leave_its_instance_id_out() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1, static=1)
    assert coordinator.heartbeat(member, 1) is ErrorCode.NONE
    assert coordinator.heartbeat(member, 1, instance="instance-0") is ErrorCode.NONE


def test_a_dynamic_member_may_not_claim_an_instance_id() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    assert coordinator.heartbeat(member, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_during_a_rebalance_it_keeps_the_member_and_says_so() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    for _ in range(5):
        coordinator.advance(9_000)
        assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.join(follower).joined.generation_id == 2
