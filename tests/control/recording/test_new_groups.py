"""Recordings of every new group, and their replay."""

from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.recording.recording_registry import MAX_RECORDINGS
from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, heartbeat_request, join_alone
from tests.control.interception import list_interceptors
from tests.control.recording.test_recordings import Serving, plays, requests_of, serving

__all__ = ["serving"]


def commit(group_id: str, offset: int = 1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def recorded_groups(control: ControlPlane) -> dict[str, str]:
    return {state.group_id: state.starts for state in control.recordings.list_recordings()}


def machines(server: Server) -> list[bool]:
    """Return for each partition whether the calls of its machine are intercepted."""
    return [bool(list_interceptors(partition)) for partition in server.runtime.partitions]


async def test_groups_of_every_kind_are_recorded_from_their_first_request_on(serving: Serving) -> None:
    server, control = serving
    control.recordings.record_new_groups()
    async with Client(server, "alice") as alice:
        await join_alone(alice, "classic")
        assert (await alice.call(commit("simple"), 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
        fields: Any = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
        }
        first = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m", member_epoch=0, **fields)
        assert (await alice.call(first, 1)).error_code == ErrorCode.NONE
    assert recorded_groups(control) == {"classic": "empty", "simple": "empty", "new": "empty"}
    assert requests_of(plays(control, "classic"))[0] == "JoinGroupRequest"
    assert requests_of(plays(control, "simple")) == ["OffsetCommitRequest"]
    assert requests_of(plays(control, "new"))[0] == "ConsumerGroupHeartbeatRequest"


async def test_existing_and_only_queried_groups_are_not_recorded(serving: Serving) -> None:
    server, control = serving
    async with Client(server, "alice") as alice:
        assert (await alice.call(commit("there"), 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
        control.recordings.record_new_groups()
        await join_alone(alice, "there")
        await alice.call(DescribeGroupsRequest(groups=["nobody"]), 5)
        await alice.call(heartbeat_request("nobody", "m", 1), 3)
    assert recorded_groups(control) == {}


async def test_recording_continues_after_a_reload(serving: Serving) -> None:
    server, control = serving
    control.recordings.record_new_groups()
    async with Client(server, "alice") as alice:
        member_id, generation_id = await join_alone(alice, "g")
        await control.failover.failover_group("g", 0, 0, 0, None)
        for _ in range(2):
            answer = await alice.call(heartbeat_request("g", member_id, generation_id), 3)
            assert answer.error_code == ErrorCode.NONE
    kinds = [line.kind for line in plays(control, "g").lines]
    assert kinds.index("unload") < kinds.index("load")
    assert kinds[-1] in ("request", "beat")


async def test_an_explicit_recording_continues_beside_new_groups(serving: Serving) -> None:
    server, control = serving
    control.recordings.start_recording("g")
    control.recordings.record_new_groups()
    async with Client(server, "alice") as alice:
        await join_alone(alice, "g")
        control.recordings.delete_recording("g")
        await alice.call(commit("h"), 8)
        control.recordings.delete_recording("h")
        await alice.call(commit("i"), 8)
    assert recorded_groups(control) == {"i": "empty"}
    plays(control, "i")


async def test_no_more_than_there_may_be_and_the_rest_is_counted(serving: Serving) -> None:
    server, control = serving
    control.recordings.record_new_groups()
    async with Client(server, "alice") as alice:
        for number in range(MAX_RECORDINGS + 3):
            answer = await alice.call(commit(f"g{number}"), 8)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert len(recorded_groups(control)) == MAX_RECORDINGS
    assert control.recordings.unrecorded_count == 3


async def test_a_group_that_cannot_be_recorded_is_still_created(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, control = serving

    def fail(*_: object) -> None:
        raise TypeError("no form")

    control.recordings.record_new_groups()
    monkeypatch.setattr("coordinator.control.recording.group_recording.export_group", fail)
    async with Client(server, "alice") as alice:
        await join_alone(alice, "g")
    assert recorded_groups(control) == {}
    assert control.recordings.unrecorded_count == 1
    assert [record for record in caplog.records if record.exc_info is not None]


async def test_nothing_stands_in_the_way_any_more_when_all_is_dropped(serving: Serving) -> None:
    server, control = serving
    control.recordings.record_new_groups()
    assert all(machines(server))
    async with Client(server, "alice") as alice:
        await join_alone(alice, "g")
        comparison = compare_recording(
            read_recording(b"".join(control.recordings.pieces("g")).splitlines(keepends=True))
        )
        assert comparison.different is None, format_comparison(comparison)
        control.recordings.delete_all()
        assert not any(machines(server))
        await alice.call(commit("h"), 8)
    assert recorded_groups(control) == {}
    assert not control.recordings.records_new_groups
