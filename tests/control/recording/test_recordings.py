"""Groups of a server are recorded while it runs, and their recordings are played as they were."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.recording.recording_registry import DEFAULT_BYTES, MAX_RECORDINGS
from coordinator.control.replay.recording_file import RecordingFile, read_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from coordinator.group.group_requests import EndTransaction, Request
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, heartbeat_request, join_alone
from tests.control.interception import list_interceptors
from tests.control.serving import controlled

Serving = tuple[Server, ControlPlane]


@pytest.fixture
async def serving() -> AsyncIterator[Serving]:
    async with controlled() as serving:
        yield serving


def recorded(control: ControlPlane, group_id: str) -> RecordingFile:
    return read_recording(b"".join(control.recordings.pieces(group_id)).splitlines(keepends=True))


def plays(control: ControlPlane, group_id: str = "g") -> RecordingFile:
    """The recording of a group, which is played as it was."""
    found = recorded(control, group_id)
    comparison = compare_recording(found)
    assert comparison.different is None, format_comparison(comparison)
    assert comparison.inputs == found.inputs
    return found


def requests_of(found: RecordingFile) -> list[str]:
    return [line.fields.get("request", line.kind) for line in found.lines]


def commit(member_id: str, generation_id: int, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="note"
    )
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


async def test_a_life_from_the_first_join_on(serving: Serving) -> None:
    server, control = serving
    state = control.recordings.start_recording("g")
    assert (state.starts, state.inputs, state.ended) == ("empty", 0, None)
    async with Client(server, "alice") as alice, Client(server, "bob") as bob:
        member_id, generation_id = await join_alone(alice, "g")
        await join_alone(bob, "another")
        for offset in range(3):
            assert (await alice.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
            await alice.call(commit(member_id, generation_id, offset), 8)
        await alice.call(LeaveGroupRequest(group_id="g", member_id=member_id), 0)
    found = plays(control)
    assert [name for name in requests_of(found) if name != "fire"][:2] == [
        "JoinGroupRequest",
        "SyncGroupRequest",
    ]
    assert requests_of(found).count("OffsetCommitRequest") == 3
    assert requests_of(found)[-1] == "LeaveGroupRequest"
    assert compare_recording(found).generations >= 1
    assert "another" not in str(found.lines)


async def test_a_group_that_is_there_already(serving: Serving) -> None:
    server, control = serving
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        await alice.call(commit(member_id, generation_id, 7), 8)
        assert control.recordings.start_recording("g").starts == "snapshot"
        await alice.call(commit(member_id, generation_id, 8), 8)
        await control.member_commands.expire_member("g", member_id, None)
    assert "ExpireMember" in requests_of(plays(control))


async def test_consecutive_heartbeats_are_one_line_for_each_sender(serving: Serving) -> None:
    server, control = serving
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        control.recordings.start_recording("g")
        for _ in range(50):
            assert (await alice.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
        await alice.call(commit(member_id, generation_id, 7), 8)
        for _ in range(20):
            await alice.call(heartbeat_request("g", member_id, generation_id), 3)
    found = plays(control)
    assert [(line.kind, line.count) for line in found.lines] == [("beat", 50), ("request", 1), ("beat", 20)]


async def test_inputs_about_several_groups_are_reduced_to_one(serving: Serving) -> None:
    server, control = serving
    for group_id in ("g", "h"):
        control.recordings.start_recording(group_id)
    async with Client(server) as client:
        for group_id in ("g", "h"):
            member_id, _ = await join_alone(client, group_id)
            await client.call(LeaveGroupRequest(group_id=group_id, member_id=member_id), 0)
        await client.call(ListGroupsRequest(), 4)
        described = await client.call(DescribeGroupsRequest(groups=["h", "g", "none"]), 5)
        assert len(described.groups) == 3
        deleted = await client.call(DeleteGroupsRequest(groups_names=["h", "g"]), 2)
        assert [one.error_code for one in deleted.results] == [0, 0]
    for group_id, other in (("g", '"h"'), ("h", '"g"')):
        found = plays(control, group_id)
        assert requests_of(found)[-2:] == ["DescribeGroupsRequest", "DeleteGroupsRequest"]
        assert other not in str(found.lines).replace("'", '"')


async def test_a_recorded_consumer_group_with_changing_topics(serving: Serving) -> None:
    server, control = serving
    control.recordings.start_recording("g")
    async with Client(server, "carol") as carol:

        async def beat(**fields: object) -> ConsumerGroupHeartbeatRequest:
            request = ConsumerGroupHeartbeatRequest(group_id="g", **fields)  # type: ignore[arg-type]
            response = await carol.call(request, 1)
            assert response.error_code == ErrorCode.NONE
            epoch: int = response.member_epoch
            return ConsumerGroupHeartbeatRequest(group_id="g", member_id="carol-1", member_epoch=epoch)

        async def create(name: str, partitions: int) -> None:
            topic = CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
            )
            created = await carol.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
            assert created.topics[0].error_code == ErrorCode.NONE

        owns = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders", "payments"],
            "topic_partitions": [],
        }
        known = await beat(member_id="carol-1", member_epoch=0, **owns)
        await create("payments", 2)
        for _ in range(3):
            known = await beat(member_id="carol-1", member_epoch=known.member_epoch)
        gone = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="payments", topic_id=bytes(16))], timeout_ms=1000
        )
        assert (await carol.call(gone, 6)).responses[0].error_code == ErrorCode.NONE
        await beat(member_id="carol-1", member_epoch=-1)
    found = plays(control)
    assert {"TopicsChanged", "ConsumerGroupHeartbeatRequest"} <= set(requests_of(found))
    assert compare_recording(found).generations >= 2


async def test_a_group_with_a_clock_of_its_own(serving: Serving) -> None:
    """The recording has the time of the group, in any order of the decorators."""
    server, control = serving
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        await control.clocks.set_clock("g", frozen=True, expires_disconnected=False)
        control.recordings.start_recording("g")
        await control.clock_commands.advance_clock(
            "g", 60_000, silent=[member_id], settle_ms=0, description="advance", actor=None
        )
        answer = await alice.call(heartbeat_request("g", member_id, generation_id), 3)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await control.clocks.remove("g")
    found = plays(control)
    fired = [line for line in found.lines if line.kind == "fire"]
    assert "MemberExpired" in str([line.outcome for line in fired])


async def test_a_group_that_is_loaded_again(serving: Serving) -> None:
    server, control = serving
    control.recordings.start_recording("g")
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        await alice.call(commit(member_id, generation_id, 7), 8)
        await control.failover.failover_group("g", 0, 0, 0, None)
        assert (await alice.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
    kinds = [line.kind for line in plays(control).lines]
    assert kinds.index("unload") < kinds.index("load")
    assert kinds[-1] in ("request", "beat")


async def test_the_interceptor_exists_only_during_recordings(serving: Serving) -> None:
    server, control = serving
    partition = server.runtime.find_partition("g")
    control.recordings.start_recording("g")
    assert list_interceptors(partition) == ["RecordedShard"]
    assert control.recordings.start_recording("g", 10_000).most_bytes == DEFAULT_BYTES
    assert list_interceptors(partition) == ["RecordedShard"]
    control.recordings.delete_recording("g")
    assert list_interceptors(partition) == []
    assert control.recordings.list_recordings() == []
    with pytest.raises(Problem) as raised:
        control.recordings.pieces("g")
    assert raised.value.kind is ProblemKind.NO_SUCH_RECORDING


async def test_it_ends_by_itself_when_it_is_full_and_is_played_up_to_there(serving: Serving) -> None:
    server, control = serving
    control.recordings.start_recording("g", 20_000)
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        for offset in range(100):
            await alice.call(commit(member_id, generation_id, offset), 8)
    (state,) = control.recordings.list_recordings()
    assert state.ended is not None
    assert state.bytes <= 20_000
    assert list_interceptors(server.runtime.find_partition("g")) == []
    found = plays(control)
    assert 10 < found.inputs < 100
    assert found.end == state.ended


async def test_a_group_that_does_not_fit_is_not_recorded(serving: Serving) -> None:
    server, control = serving
    with pytest.raises(Problem) as raised:
        control.recordings.start_recording("g", 1024)
    assert raised.value.kind is ProblemKind.NOT_POSSIBLE
    assert list_interceptors(server.runtime.find_partition("g")) == []


async def test_there_are_not_too_many(serving: Serving) -> None:
    _, control = serving
    for number in range(MAX_RECORDINGS):
        control.recordings.start_recording(f"g{number}")
    with pytest.raises(Problem) as raised:
        control.recordings.start_recording("one more")
    assert raised.value.kind is ProblemKind.TOO_MANY
    control.recordings.delete_recording("g0")
    control.recordings.start_recording("one more")


async def test_a_failed_write_ends_only_the_recording(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, control = serving

    def fail(*_: object) -> Request:
        raise TypeError("no form")

    control.recordings.start_recording("g")
    monkeypatch.setattr("coordinator.control.recording.recorded_shard.restrict_request", fail)
    async with Client(server, "alice") as alice:
        await join_alone(alice, "g")
    (state,) = control.recordings.list_recordings()
    assert state.ended is not None
    assert [record for record in caplog.records if record.exc_info is not None]


async def test_transactions_of_other_groups_are_not_recorded(serving: Serving) -> None:
    _, control = serving
    control.recordings.start_recording("g")
    answer = await control.group_client.request("g", EndTransaction(7, 0, 0, is_committed=True), 0)
    assert answer is ErrorCode.NONE
    await asyncio.sleep(0)
    assert plays(control).inputs == 0
