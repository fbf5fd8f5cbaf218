from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import (
    MemberFenced,
    RebalanceAvoided,
    RebalanceStarted,
    StaticMemberReplaced,
)
from protocol.error_codes import ErrorCode
from protocol.records.group_record_schemas import GroupMetadataValue
from tests.group.ask import named
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import CHANGED, new_generation, stable_group

TWO = [("range", RANGE[0][1]), ("sticky", b"s")]


def static_group(coordinator: Coordinator) -> tuple[str, str]:
    """Create a Stable group of two static members. Return their ids: instance-0 (the leader) and instance-1."""
    first, second = stable_group(coordinator, 2, static=2)
    return first, second


def test_a_restarted_follower_carries_on_without_a_rebalance() -> None:
    coordinator = Coordinator()
    leader, follower = static_group(coordinator)
    response = coordinator.join(instance="instance-1").joined
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, leader)
    assert (response.members, response.skip_assignment) == ([], False)
    assert response.member_id != follower
    assert coordinator.sync(response.member_id, 1).synced.assignment == b"for " + follower.encode()
    assert coordinator.find_events(RebalanceAvoided) == [
        RebalanceAvoided(GROUP, 1, named(response.member_id, "instance-1"))
    ]
    assert coordinator.find_events(StaticMemberReplaced) == [
        StaticMemberReplaced(GROUP, 1, named(response.member_id, "instance-1"), follower, "Stable")
    ]
    assert coordinator.state() == "Stable"


def test_a_restarted_leader_is_told_that_it_leads_but_need_not_assign() -> None:
    coordinator = Coordinator()
    leader, _ = static_group(coordinator)
    response = coordinator.join(instance="instance-0").joined
    assert response.leader == response.member_id != leader
    assert response.skip_assignment
    assert len(response.members) == 2
    assert coordinator.sync(response.member_id, 1, {}).synced.assignment == b"for " + leader.encode()


def test_before_version_9_a_restarted_leader_is_told_its_former_id_so_that_it_follows() -> None:
    coordinator = Coordinator()
    leader, _ = static_group(coordinator)
    response = coordinator.join(instance="instance-0", version=8).joined
    assert (response.leader, response.members, response.skip_assignment) == (leader, [], False)


def test_the_replacement_is_recorded() -> None:
    coordinator = Coordinator()
    static_group(coordinator)
    new_id = coordinator.join(instance="instance-1").joined.member_id
    value = coordinator.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert new_id in [member.member_id for member in value.members]
    coordinator.restart()
    assert coordinator.heartbeat(new_id, 1, instance="instance-1") is ErrorCode.NONE


def test_the_predecessor_is_fenced_everywhere() -> None:
    coordinator = Coordinator()
    _, old = static_group(coordinator)
    new = coordinator.join(instance="instance-1").joined.member_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(old, 1, instance="instance-1") is fenced
    assert coordinator.sync(old, 1, instance="instance-1").error is fenced
    assert coordinator.commit(old, 1, instance="instance-1") is fenced
    response = coordinator.join(old, instance="instance-1").joined
    assert (response.error_code, response.member_id) == (fenced, old)
    assert coordinator.find_events(MemberFenced)[0] == MemberFenced(
        GROUP, 1, named(old, "instance-1"), new, "heartbeat"
    )
    assert coordinator.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_predecessor_that_waits_to_join_is_answered_with_its_own_id() -> None:
    coordinator = Coordinator()
    first = coordinator.join(instance="i")
    second = coordinator.join(instance="i")
    old = coordinator.find_events(StaticMemberReplaced)[0].old_member_id
    response = first.joined
    assert (response.error_code, response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    assert (response.leader, response.protocol_name) == ("", None)
    coordinator.advance(3_000)
    assert second.joined.leader == second.joined.member_id


def test_a_predecessor_that_waits_to_sync_is_answered_and_the_group_rebalances() -> None:
    coordinator = Coordinator()
    leader, static = new_generation(coordinator, 2, static=1)
    waiting = coordinator.sync(static, 1, instance="instance-0")
    ask = coordinator.join(instance="instance-0")
    assert waiting.synced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert (
        coordinator.find_events(RebalanceStarted)[-1].trigger.cause is RebalanceCause.STATIC_MEMBER_REPLACED
    )
    coordinator.join(leader)
    assert ask.joined.generation_id == 2


def test_a_replacement_that_changes_the_selected_protocol_rebalances() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join(instance=f"i{number}", protocols=TWO) for number in range(2)]
    coordinator.advance(6_000)
    leader, follower = (ask.joined.member_id for ask in joins)
    coordinator.sync(leader, 1)
    coordinator.sync(follower, 1)
    ask = coordinator.join(instance="i1", protocols=[("sticky", b"s")])
    assert ask.is_parked
    assert coordinator.state() == "PreparingRebalance"
    coordinator.join(leader, protocols=TWO)
    assert (ask.joined.protocol_name, ask.joined.generation_id) == ("sticky", 2)


def test_a_changed_subscription_under_the_same_protocol_does_not_rebalance() -> None:
    coordinator = Coordinator()
    static_group(coordinator)
    response = coordinator.join(instance="instance-1", protocols=CHANGED).joined
    assert response.generation_id == 1
    described = coordinator.describe().members
    assert CHANGED[0][1] in [member.member_metadata for member in described]


def test_a_replacement_in_the_join_phase_takes_the_place_and_waits() -> None:
    coordinator = Coordinator()
    leader, follower = static_group(coordinator)
    waiting = coordinator.join(leader, instance="instance-0")
    ask = coordinator.join(instance="instance-1")
    assert ask.joined.generation_id == waiting.joined.generation_id == 2
    assert follower not in [member.member_id for member in waiting.joined.members]


def test_a_replaced_member_that_had_not_synced_can_and_ends_the_wait() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator, 2, static=1)
    coordinator.sync(leader, 1, {})
    new = coordinator.join(instance="instance-0").joined.member_id
    assert coordinator.sync(new, 1).error is ErrorCode.NONE
    for _ in range(9):
        coordinator.advance(8_000)
        assert coordinator.heartbeat(new, 1) is ErrorCode.NONE
        assert coordinator.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_replacement_keeps_the_address_of_its_predecessor_and_takes_its_own_session() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(instance="i", client_id="before")
    coordinator.advance(3_000)
    coordinator.sync(ask.joined.member_id, 1)
    new = coordinator.join(instance="i", client_id="after", session=60_000).joined.member_id
    assert coordinator.describe().members[0].client_id == "before"
    assert coordinator.heartbeat(new, 1, instance="i") is ErrorCode.NONE
    coordinator.advance(59_999)
    assert coordinator.state() == "Stable"
    coordinator.advance(1)
    assert coordinator.state() == "Empty"


def test_the_predecessors_session_ends_without_effect() -> None:
    coordinator = Coordinator()
    leader, _ = static_group(coordinator)
    coordinator.advance(9_000)
    coordinator.heartbeat(leader, 1)
    coordinator.join(instance="instance-1")
    coordinator.advance(9_000)
    assert coordinator.state() == "Stable"
