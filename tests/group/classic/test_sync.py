from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_event_types import AssignmentApplied, AssignmentReceived, RebalanceStarted
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SyncGroupResponse
from protocol.records.group_record_schemas import GroupMetadataKey, GroupMetadataValue
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import new_generation, stable_group


def test_followers_wait_for_the_leader_and_everyone_gets_its_part() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    waiting = coordinator.sync(follower, 1)
    assert waiting.is_parked
    ask = coordinator.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert waiting.synced == SyncGroupResponse(
        error_code=ErrorCode.NONE, protocol_type="consumer", protocol_name="range", assignment=b"F"
    )
    assert ask.synced.assignment == b"L"
    assert coordinator.find_events(AssignmentApplied) == [AssignmentApplied(GROUP, 1, 2)]


def test_a_follower_that_comes_after_the_leader_is_answered_at_once() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    coordinator.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert coordinator.sync(follower, 1).synced.assignment == b"F"


def test_the_assignment_is_recorded_with_everything_that_a_restart_needs() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator, 2, static=1)
    entered = coordinator.now.wall_ms
    coordinator.advance(500)
    coordinator.sync(leader, 1, {leader: b"L", follower: b"F"})
    record = coordinator.records[-1]
    value = record.value
    assert record.key == GroupMetadataKey(group=GROUP)
    assert record.value_version == 3
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.protocol, value.generation, value.leader) == (
        "consumer",
        "range",
        1,
        leader,
    )
    assert value.current_state_timestamp == entered
    member = value.members[1]
    assert (member.member_id, member.group_instance_id, member.subscription, member.assignment) == (
        follower,
        "instance-0",
        RANGE[0][1],
        b"F",
    )
    assert (member.session_timeout, member.rebalance_timeout) == (10_000, 60_000)
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")


def test_members_that_the_leader_leaves_out_get_nothing_and_strangers_are_ignored() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    waiting = coordinator.sync(follower, 1)
    coordinator.sync(leader, 1, {leader: b"L", "stranger": b"S"})
    assert waiting.synced.assignment == b""
    assert waiting.synced.error_code == ErrorCode.NONE
    assert coordinator.find_events(AssignmentReceived) == [
        AssignmentReceived(GROUP, 1, named(leader), 2, 0, (follower,), ("stranger",))
    ]


def test_what_a_follower_hands_in_is_ignored() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    waiting = coordinator.sync(follower, 1, {follower: b"mine"})
    coordinator.sync(leader, 1, {follower: b"F"})
    assert waiting.synced.assignment == b"F"


def test_a_stable_leader_that_syncs_again_gets_the_old_assignment() -> None:
    coordinator = Coordinator()
    leader, _ = stable_group(coordinator)
    assert coordinator.sync(leader, 1, {leader: b"new"}).synced.assignment == b"for " + leader.encode()


def test_a_second_sync_of_a_waiting_member_takes_over() -> None:
    coordinator = Coordinator()
    leader, follower = new_generation(coordinator)
    first, second = coordinator.sync(follower, 1), coordinator.sync(follower, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.sync(leader, 1, {follower: b"F"})
    assert second.synced.assignment == b"F"


def test_a_refused_sync_says_neither_protocol_nor_assignment() -> None:
    coordinator = Coordinator()
    leader, _ = stable_group(coordinator)
    assert coordinator.sync(leader, 0).synced == SyncGroupResponse(
        error_code=ErrorCode.ILLEGAL_GENERATION, assignment=b""
    )


def test_a_group_id_is_required_but_a_missing_protocol_is_noticed_first() -> None:
    coordinator = Coordinator()
    assert coordinator.sync("m", 1, group="").error is ErrorCode.INVALID_GROUP_ID
    missing = coordinator.sync("m", 1, group="", protocol_name=None)
    assert missing.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_being_answered_starts_the_session_anew() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.advance(9_000)
    coordinator.sync(leader, 1)
    coordinator.sync(follower, 1)
    coordinator.advance(9_000)
    assert coordinator.state() == "Stable"


def test_a_group_too_large_for_a_record_of_the_log_starts_over() -> None:
    coordinator = Coordinator(group_config(message_max_bytes=2_000))
    leader, follower = new_generation(coordinator)
    waiting = coordinator.sync(follower, 1)
    records = list(coordinator.records)
    ask = coordinator.sync(leader, 1, {leader: b"L" * 1_000, follower: b"F" * 1_000})
    assert (waiting.error, ask.error) == (ErrorCode.UNKNOWN_SERVER_ERROR,) * 2
    assert coordinator.records == records
    assert coordinator.describe().group_state == "PreparingRebalance"
    assert coordinator.find_events(RebalanceStarted)[-1].trigger.cause is RebalanceCause.ASSIGNMENT_TOO_LARGE
    assert {member.member_assignment for member in coordinator.describe().members} == {b""}
