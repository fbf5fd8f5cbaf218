"""Events of rejected requests: the client, its values and the group's values."""

import pytest

from coordinator.group.event_details import (
    GenerationDiffers,
    GroupFull,
    MemberIdTooLong,
    MetadataTooLong,
    ProtocolsDiffer,
    RecordsTooLarge,
    SessionTimeoutOutOfRange,
)
from coordinator.group.group_event_types import (
    CommitRefused,
    HeartbeatRefused,
    JoinRefused,
    MemberFenced,
    RequestRefused,
    SyncRefused,
)
from coordinator.group.group_request_rules import (
    GROUP_REQUEST_RULES,
    build_group_error_response,
    find_error_before_lookup,
)
from coordinator.group.group_requests import Request
from coordinator.group.group_shard import REQUEST_HANDLERS
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.group.ask import named
from tests.group.config import group_config
from tests.group.coordinator import GROUP, RANGE, Coordinator
from tests.group.stories import new_generation, stable_group


def join(group: str, session_ms: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=session_ms, member_id="m", protocol_type="consumer", protocols=[]
    )


def sync(group: str) -> SyncGroupRequest:
    return SyncGroupRequest(group_id=group, generation_id=1, member_id="m", assignments=[])


WRONG: list[tuple[Request, int]] = [
    (join("", 10_000), 9),
    (join("", 1), 9),
    (join(GROUP, 1), 5),
    (sync(GROUP), 5),
    (sync(""), 4),
    (HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4),
    (LeaveGroupRequest(group_id=""), 5),
    (OffsetDeleteRequest(group_id="", topics=[]), 0),
]
"""Requests that any group refuses, with their versions."""


@pytest.mark.parametrize(("request_", "version"), WRONG, ids=lambda part: type(part).__name__)
def test_what_is_wrong_whatever_the_group_is_told_alike_with_and_without_the_groups(
    request_: Request, version: int
) -> None:
    coordinator = Coordinator()
    stable_group(coordinator)
    error = find_error_before_lookup(request_, version, coordinator.config)
    assert error is not ErrorCode.NONE
    assert coordinator.send(request_, version).reply == build_group_error_response(request_, version, error)


def test_every_request_of_the_core_can_be_refused() -> None:
    assert set(GROUP_REQUEST_RULES) == set(REQUEST_HANDLERS)


def last(coordinator: Coordinator) -> RequestRefused:
    return coordinator.find_events(RequestRefused)[-1]


def test_a_session_timeout_out_of_range_is_told_with_the_range() -> None:
    coordinator = Coordinator(group_config(group_max_session_timeout_ms=60_000))
    coordinator.join(session=5_999)
    refused = last(coordinator)
    assert isinstance(refused, JoinRefused)
    assert refused.member == named("")
    assert refused.detail == SessionTimeoutOutOfRange(5_999, 6_000, 60_000)


def test_a_full_group_is_told_with_its_size() -> None:
    coordinator = Coordinator(group_config(group_max_size=2))
    stable_group(coordinator)
    coordinator.join()
    assert last(coordinator).detail == GroupFull(2, 2)


def test_protocols_that_do_not_fit_are_told_with_those_that_would() -> None:
    coordinator = Coordinator()
    both = [*RANGE, ("sticky", b"")]
    joins = [coordinator.join(version=3, protocols=protocols) for protocols in ([*both, ("own", b"")], both)]
    coordinator.advance(6_000)
    coordinator.join(version=3, protocols=[("own", b""), ("other", b"")])
    assert last(coordinator).detail == ProtocolsDiffer(
        "consumer", ("own", "other"), "consumer", ("range", "sticky")
    )
    coordinator.sync(joins[0].joined.member_id, 1, protocol_name="sticky")
    refused = last(coordinator)
    assert isinstance(refused, SyncRefused)
    assert refused.detail == ProtocolsDiffer("consumer", ("sticky",), "consumer", ("range",))


def test_another_generation_is_told_with_both() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    kinds: list[type[RequestRefused]] = []
    for ask in (coordinator.heartbeat, coordinator.sync, coordinator.commit):
        ask(member, 4)
        assert last(coordinator).detail == GenerationDiffers(4, 1)
        assert last(coordinator).state == "Stable"
        kinds.append(type(last(coordinator)))
    assert kinds == [HeartbeatRefused, SyncRefused, CommitRefused]


@pytest.mark.parametrize(("group", "state"), [(GROUP, "Stable"), ("nowhere", "")])
def test_a_stranger_is_told_by_its_client(group: str, state: str) -> None:
    coordinator = Coordinator()
    stable_group(coordinator, 1)
    assert coordinator.heartbeat("zombie", 1, group=group) is ErrorCode.UNKNOWN_MEMBER_ID
    assert last(coordinator) == HeartbeatRefused(
        group, 1, named("zombie"), ErrorCode.UNKNOWN_MEMBER_ID, state, None, None
    )


def test_who_has_to_rejoin_is_not_refused() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not coordinator.find_events(RequestRefused)


def test_a_commit_while_the_assignment_is_awaited_is_refused() -> None:
    coordinator = Coordinator()
    leader, _ = new_generation(coordinator)
    coordinator.commit(leader, 1)
    assert last(coordinator).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_metadata_that_is_too_long_is_told_with_its_length() -> None:
    coordinator = Coordinator(group_config(offset_metadata_max_bytes=10))
    coordinator.commit(metadata="x" * 9 + "🦀")
    assert last(coordinator).detail == MetadataTooLong(11, 10)


def test_records_that_are_too_large_are_told_with_the_bound() -> None:
    coordinator = Coordinator(group_config(message_max_bytes=100))
    coordinator.commit(metadata="x" * 1_000)
    assert last(coordinator).detail == RecordsTooLarge(100)


def test_a_name_that_makes_no_member_id_is_told_with_the_bound() -> None:
    coordinator = Coordinator()
    coordinator.join(client_id="x" * 32_760)
    assert last(coordinator).detail == MemberIdTooLong(32_767)


def test_a_fenced_member_is_told_with_who_has_the_instance_id_now() -> None:
    coordinator = Coordinator()
    old, _ = stable_group(coordinator, 2, static=2)
    new = coordinator.join(instance="instance-0").joined.member_id
    coordinator.heartbeat(old, 1, instance="instance-0")
    fenced = coordinator.find_events(MemberFenced)[-1]
    assert (fenced.member, fenced.existing) == (named(old, "instance-0"), new)
