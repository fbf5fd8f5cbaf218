"""What is told of a refused request: who sent it, and what it offered against what there is."""

import pytest

from coordinator.group.events import (
    CommitRefused,
    HeartbeatRefused,
    JoinRefused,
    MemberFenced,
    Refused,
    SyncRefused,
)
from coordinator.group.refusal_facts import (
    GenerationDiffers,
    GroupFull,
    MemberIdTooLong,
    MetadataTooLong,
    ProtocolsDiffer,
    RecordsTooLarge,
    SessionTimeoutOutOfRange,
)
from protocol.errors import ErrorCode
from tests.group.config import group_config
from tests.group.coordinator import GROUP, RANGE, WHO, Coordinator, named
from tests.group.stories import new_generation, stable_group


def last(coordinator: Coordinator) -> Refused:
    return coordinator.told(Refused)[-1]


def test_a_session_timeout_out_of_range_is_told_with_the_range() -> None:
    coordinator = Coordinator(group_config(group_max_session_timeout_ms=60_000))
    coordinator.join(session=5_999)
    refused = last(coordinator)
    assert isinstance(refused, JoinRefused)
    assert (refused.member_id, refused.client_id, refused.client_host) == ("", *WHO)
    assert refused.detail == SessionTimeoutOutOfRange(5_999, 6_000, 60_000)


def test_a_full_group_is_told_with_its_size() -> None:
    coordinator = Coordinator(group_config(group_max_size=2))
    stable_group(coordinator)
    coordinator.join()
    assert last(coordinator).detail == GroupFull(2, 2)


def test_protocols_that_do_not_fit_are_told_with_those_that_would() -> None:
    coordinator = Coordinator()
    both = [*RANGE, ("sticky", b"")]
    asks = [coordinator.join(version=3, protocols=protocols) for protocols in ([*both, ("own", b"")], both)]
    coordinator.advance(6_000)
    coordinator.join(version=3, protocols=[("own", b""), ("other", b"")])
    assert last(coordinator).detail == ProtocolsDiffer(
        "consumer", ("own", "other"), "consumer", ("range", "sticky")
    )
    coordinator.sync(asks[0].joined.member_id, 1, protocol_name="sticky")
    refused = last(coordinator)
    assert isinstance(refused, SyncRefused)
    assert refused.detail == ProtocolsDiffer("consumer", ("sticky",), "consumer", ("range",))


def test_another_generation_is_told_with_both() -> None:
    coordinator = Coordinator()
    (member,) = stable_group(coordinator, 1)
    kinds: list[type[Refused]] = []
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
        group, *named("zombie"), ErrorCode.UNKNOWN_MEMBER_ID, state, None
    )


def test_who_has_to_rejoin_is_not_refused() -> None:
    coordinator = Coordinator()
    leader, follower = stable_group(coordinator)
    coordinator.join(leader)
    assert coordinator.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not coordinator.told(Refused)


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
    fenced = coordinator.told(MemberFenced)[-1]
    assert (fenced.member_id, fenced.client_id, fenced.client_host) == (old, *WHO)
    assert fenced.existing == named(new, "instance-0")
