import pytest

from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import MemberLeft, RebalanceStarted
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from tests.group.ask import WHO, Ask, named
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stories import joined_member, new_generation, stable_group


def errors(ask: Ask) -> list[int]:
    response = ask.answer(LeaveGroupResponse)
    assert response.error_code == ErrorCode.NONE
    return [member.error_code for member in response.members]


def test_one_bad_entry_does_not_stop_the_others() -> None:
    coordinator = Coordinator()
    leader, follower, static = stable_group(coordinator, 3, static=1)
    pending = coordinator.join().joined.member_id
    ask = coordinator.leave(
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id=follower, group_instance_id="instance-0"),
        MemberIdentity(member_id=follower, reason="scaling down"),
        MemberIdentity(member_id="", group_instance_id="instance-0"),
        MemberIdentity(member_id="", group_instance_id="instance-0"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id=pending),
    )
    assert errors(ask) == [25, 82, 0, 0, 25, 25, 0]
    assert ask.answer(LeaveGroupResponse).members[3] == MemberResponse(
        member_id="", group_instance_id="instance-0", error_code=0
    )
    assert coordinator.find_events(MemberLeft) == [
        MemberLeft(GROUP, 1, named(follower), "scaling down", False, *WHO),
        MemberLeft(GROUP, 1, named(static, "instance-0"), "not provided", False, *WHO),
        MemberLeft(GROUP, 1, named(pending), "not provided", True, *WHO),
    ]
    starts = [
        e for e in coordinator.find_events(RebalanceStarted) if e.trigger.cause is RebalanceCause.MEMBER_LEFT
    ]
    assert len(starts) == 1
    assert follower in starts[0].trigger.reason
    assert coordinator.join(leader).joined.generation_id == 2


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_group_is_an_error_of_the_members_or_at_the_top_in_old_versions(version: int) -> None:
    coordinator = Coordinator()
    if version < 3:
        assert coordinator.leave_alone("m", group="nobody's") is ErrorCode.UNKNOWN_MEMBER_ID
    else:
        ask = coordinator.leave(
            MemberIdentity(member_id="m"), MemberIdentity(member_id="n"), group="nobody's"
        )
        assert errors(ask) == [25, 25]


def test_a_group_id_is_required() -> None:
    coordinator = Coordinator()
    assert coordinator.leave_alone("m", group="") is ErrorCode.INVALID_GROUP_ID
    response = coordinator.leave(MemberIdentity(member_id="m"), group="").answer(LeaveGroupResponse)
    assert response == LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_leaving_without_anyone_changes_nothing() -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    assert errors(coordinator.leave()) == []
    assert coordinator.state() == "Stable"


def test_whoever_waits_and_is_removed_learns_that_it_is_unknown() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    joining = coordinator.join(follower)
    assert joining.joined.error_code == ErrorCode.NONE
    joining = coordinator.join(leader)
    coordinator.leave_alone(leader)
    assert (joining.joined.error_code, joining.joined.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_whoever_waits_for_its_assignment_and_is_removed_learns_it_too() -> None:
    coordinator = Coordinator()
    _, follower = new_generation(coordinator)
    waiting = coordinator.sync(follower, 1)
    coordinator.leave_alone(follower)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_who_had_to_be_waited_for_ends_the_join_phase_by_leaving() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    ask = coordinator.join(leader)
    coordinator.leave_alone(follower)
    assert ask.joined.generation_id == 2


def test_a_pending_member_that_leaves_lets_a_rebalance_go_on() -> None:
    coordinator = Coordinator()
    (leader,) = stable_group(coordinator, 1)
    pending = coordinator.join().joined.member_id
    ask = coordinator.join(leader)
    assert ask.is_parked
    coordinator.leave_alone(pending)
    assert ask.joined.generation_id == 2
    assert coordinator.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leave_does_not_shorten_an_initial_rebalance() -> None:
    coordinator = Coordinator()
    first = coordinator.join(version=3)
    member = joined_member(coordinator)
    coordinator.leave_alone(member)
    assert first.is_parked
    coordinator.advance(6_000)
    assert first.joined.generation_id == 1
