from coordinator.group.group_event_types import JoinRefused, MemberIdRequired, MemberJoined
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.records.group_record_schemas import GroupMetadataKey, GroupMetadataValue
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, START, Coordinator
from tests.group.stories import CHANGED, joined_member, new_generation, stable_group


def test_a_dynamic_member_gets_an_id_first_and_joins_with_it() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(client_id="billing")
    assert ask.error is ErrorCode.MEMBER_ID_REQUIRED
    member_id = ask.joined.member_id
    assert member_id.startswith("billing-")
    assert len(member_id) == len("billing-") + 36
    assert coordinator.find_events(MemberIdRequired) == [
        MemberIdRequired(GROUP, 0, named(member_id, client_id="billing"), "Empty")
    ]
    assert coordinator.describe().members == []
    assert coordinator.join(member_id, client_id="billing").is_parked
    (joined,) = coordinator.find_events(MemberJoined)
    assert (joined.member, joined.pending) == (named(member_id, client_id="billing"), True)


def test_before_version_4_a_member_is_added_at_once() -> None:
    coordinator = Coordinator()
    assert coordinator.join(version=3).is_parked
    assert len(coordinator.describe().members) == 1


def test_a_static_member_is_added_at_once_and_named_for_its_instance() -> None:
    coordinator = Coordinator()
    assert coordinator.join(instance="pod-3").is_parked
    (member,) = coordinator.describe().members
    assert member.member_id.startswith("pod-3-")
    assert member.group_instance_id == "pod-3"


def test_a_refused_join_names_no_protocol_null_from_version_7_on() -> None:
    coordinator = Coordinator()
    for version in range(10):
        response = coordinator.join("stranger", version=version).joined
        assert response == JoinGroupResponse(
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            generation_id=-1,
            protocol_name=None if version >= 7 else "",
            leader="",
            member_id="stranger",
        )


def test_a_group_id_is_required() -> None:
    coordinator = Coordinator()
    assert coordinator.join("x", group="").error is ErrorCode.INVALID_GROUP_ID


def test_session_timeouts_are_bounded_on_both_sides() -> None:
    coordinator = Coordinator()
    for session, error in (
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ):
        assert coordinator.join(session=session).error is error


def test_a_join_that_creates_the_group_records_it_empty() -> None:
    coordinator = Coordinator()
    coordinator.join(protocols=[])
    (record,) = coordinator.records
    assert record.key == GroupMetadataKey(group=GROUP)
    assert record.value == GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=START.wall_ms,
        members=[],
    )
    coordinator.join()
    assert len(coordinator.records) == 1


def test_rejoining_unchanged_while_completing_answers_the_generation_again() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    again = coordinator.join(leader).joined
    assert (again.error_code, again.generation_id, again.leader, len(again.members)) == (0, 1, leader, 2)
    assert not again.skip_assignment
    assert coordinator.join(follower).joined.members == []


def test_a_stable_follower_that_rejoins_unchanged_gets_the_generation_without_members() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    response = coordinator.join(follower).joined
    assert (response.generation_id, response.leader, response.members) == (1, leader, [])


def test_the_whole_protocol_list_and_its_order_count_as_metadata() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocols=[("a", b"1"), ("b", b"2")])
    coordinator.advance(3_000)
    member = ask.joined.member_id
    assert coordinator.join(member, protocols=[("a", b"1"), ("b", b"2")]).joined.generation_id == 1
    assert coordinator.join(member, protocols=[("b", b"2"), ("a", b"1")]).joined.generation_id == 2


def test_changed_timeouts_alone_cause_no_rebalance() -> None:
    coordinator = Coordinator()
    _, follower = stable_group(coordinator)
    assert coordinator.join(follower, session=20_000, rebalance=90_000).joined.generation_id == 1


def test_a_protocol_named_twice_counts_once_with_its_first_metadata() -> None:
    coordinator = Coordinator()
    ask = coordinator.join(version=3, protocols=[("a", b"1"), ("a", b"2")])
    coordinator.advance(3_000)
    assert ask.joined.members[0].metadata == b"1"


def test_a_second_join_of_a_waiting_member_takes_over_and_the_first_is_sent_to_rejoin() -> None:
    coordinator = Coordinator()
    member = joined_member(coordinator)
    second, third = coordinator.join(member), coordinator.join(member, protocols=CHANGED)
    assert second.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(3_000)
    assert third.joined.generation_id == 1
    assert third.joined.members[0].metadata == CHANGED[0][1]


def test_a_superseded_join_is_answered_in_its_own_version() -> None:
    coordinator = Coordinator()
    old = coordinator.join(version=3)
    member_id = coordinator.describe().members[0].member_id
    coordinator.join(member_id, version=9)
    assert old.joined.protocol_name == ""


def test_a_pending_member_that_turns_out_static_is_a_server_error() -> None:
    coordinator = Coordinator()
    member = coordinator.join().joined.member_id
    response = coordinator.join(member, instance="i").joined
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


def test_a_full_group_refuses_new_members_and_keeps_its_own() -> None:
    coordinator = Coordinator(group_config(group_max_size=2))
    leader, follower = stable_group(coordinator)
    response = coordinator.join().joined
    assert (response.error_code, response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert coordinator.find_events(JoinRefused)[-1].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.join(follower).joined.error_code == ErrorCode.NONE
    assert coordinator.join(leader).is_parked


def test_a_pending_member_that_finds_the_group_full_is_forgotten() -> None:
    coordinator = Coordinator(group_config(group_max_size=1))
    ids = [coordinator.join().joined.member_id for _ in range(2)]
    first = coordinator.join(ids[0])
    assert coordinator.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    coordinator.advance(3_000)
    assert first.joined.generation_id == 1
    assert coordinator.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_after_the_limit_was_lowered_the_last_to_rejoin_are_sent_away() -> None:
    coordinator = Coordinator()
    leader, second, third = stable_group(coordinator, 3)
    coordinator.restart(group_config(group_max_size=2))
    assert coordinator.state() == "PreparingRebalance"
    joins = [coordinator.join(third), coordinator.join(leader)]
    assert coordinator.join(second).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.advance(60_000)
    assert [ask.joined.generation_id for ask in joins] == [2, 2]


def test_a_member_of_a_full_group_may_come_back_while_it_rebalances() -> None:
    coordinator = Coordinator(group_config(group_max_size=2))
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    assert coordinator.join(leader).is_parked
    assert coordinator.join(follower).joined.generation_id == 2


def test_another_protocol_type_is_taken_by_a_group_that_is_empty() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    coordinator.leave_alone(member)
    ask = coordinator.join(version=7, instance="w", protocol_type="connect", protocols=[("eager", b"")])
    coordinator.advance(3_000)
    assert (ask.joined.protocol_type, ask.joined.protocol_name) == ("connect", "eager")


def test_a_client_id_that_leaves_no_room_for_the_rest_of_a_member_id_is_refused() -> None:
    coordinator = Coordinator()
    for version in (3, 9):
        response = coordinator.join(client_id="c" * 32_767, version=version).joined
        assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert coordinator.join(instance="i" * 32_767).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.describe().members == []
