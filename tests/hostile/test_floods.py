"""Floods of connections, members and metadata. The daemon continues to serve other clients."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, heartbeat_request, join_request, serving, sync_request
from tests.crash.process import Process
from tests.hostile.few_files import FILES

MEMBERS: Final = 10_000
AT_ONCE: Final = 200


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[part])]
    return OffsetCommitRequest(group_id="g", topics=topics)


async def committed(client: Client, offset: int) -> None:
    answer = await client.call(commit(offset), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_daemon_without_descriptors_serves_open_connections(tmp_path: Path) -> None:
    log = tmp_path / "log"
    daemon = await Process.start(
        tmp_path / "data",
        log,
        ["--profile", "test", "--topic", "orders:1", "-o", "offsets.topic.num.partitions=1"],
        module="tests.hostile.few_files",
    )
    try:
        await daemon.ready()
        async with Client(port=daemon.port) as friend:
            await committed(friend, 1)
            async with AsyncExitStack() as stack:
                flood = [await stack.enter_async_context(Client(port=daemon.port)) for _ in range(FILES)]
                for client in flood:
                    client.send(ApiVersionsRequest(), 0)
                for offset in range(2, 50):
                    await committed(friend, offset)
            async with Client(port=daemon.port) as late:
                await committed(late, 50)
            await committed(friend, 51)
        lines = [line for line in log.read_text().splitlines() if "accept" in line.lower()]
        assert len(lines) == 2, lines
        daemon.terminate()
        assert await daemon.ended() == 0
    finally:
        await daemon.kill()


async def test_thousands_of_short_connections_leave_no_state(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as friend:
        for _ in range(10):
            async with AsyncExitStack() as stack:
                flood = [await stack.enter_async_context(Client(server)) for _ in range(AT_ONCE)]
                for number, client in enumerate(flood):
                    frame = client.frame(join_request("flooded") if number % 2 else ApiVersionsRequest(), 3)
                    client.writer.write(frame[: len(frame) - number % 3])
            await committed(friend, 1)
        while len(server.connections.open) > 1:
            await committed(friend, 2)
        assert server.connections.memory.reserved_bytes == 0
        assert not any(partition.waiting for partition in server.runtime.partitions)


def patient_join(member_id: str = "") -> JoinGroupRequest:
    request = join_request("huge", member_id, session_timeout_ms=300_000)
    request.rebalance_timeout_ms = 300_000
    return request


async def joins_and_goes(port: int) -> None:
    """A member that sends JoinGroup and no further request."""
    async with Client(port=port) as client:
        client.send(patient_join(), 3)
        await client.writer.drain()


async def test_a_group_of_ten_thousand_members(tmp_path: Path) -> None:
    properties = {"message.max.bytes": "20000000"}
    async with serving(tmp_path, properties) as server, Client(server) as leader, Client(server) as friend:
        port = server.endpoints[0].port
        joined = await leader.call(patient_join(), 3)
        member_id = joined.member_id
        synced = await leader.call(sync_request("huge", member_id, 1, {member_id: b"all"}), 3)
        assert synced.error_code == ErrorCode.NONE
        for _ in range(0, MEMBERS - 1, AT_ONCE):
            await asyncio.gather(*(joins_and_goes(port) for _ in range(AT_ONCE)))
        while (await leader.call(heartbeat_request("huge", member_id, 1), 3)).error_code == ErrorCode.NONE:
            pass
        group = (await friend.call(DescribeGroupsRequest(groups=["huge"]), 4)).groups[0]
        while len(group.members) <= MEMBERS:
            group = (await friend.call(DescribeGroupsRequest(groups=["huge"]), 4)).groups[0]
        joined = await leader.call(patient_join(member_id), 3)
        assert joined.error_code == ErrorCode.NONE
        assert len(joined.members) == MEMBERS + 1
        ids = [member.member_id for member in joined.members]
        plan = dict.fromkeys(ids, b"some partitions")
        synced = await leader.call(sync_request("huge", member_id, joined.generation_id, plan), 3)
        assert synced.error_code == ErrorCode.NONE
        answer = await friend.call(heartbeat_request("huge", ids[-1], joined.generation_id), 3)
        assert answer.error_code == ErrorCode.NONE
        group = (await friend.call(DescribeGroupsRequest(groups=["huge"]), 4)).groups[0]
        assert group.group_state == "Stable"
        assert {member.member_assignment for member in group.members} == {b"some partitions"}
        leave = LeaveGroupRequest(group_id="huge", members=[MemberIdentity(member_id=one) for one in ids])
        left = await friend.call(leave, 3)
        assert [member.error_code for member in left.members] == [ErrorCode.NONE] * (MEMBERS + 1)


def join_with(metadata: bytes, member_id: str = "") -> JoinGroupRequest:
    request = join_request("fat", member_id)
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
    return request


async def test_metadata_too_large_for_a_record_costs_its_group_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as fat, Client(server) as friend:
        metadata = b"\0\1" + bytes(4_000_000)
        joined = await fat.call(join_with(metadata), 5)
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = await fat.call(join_with(metadata, joined.member_id), 5)
        assert joined.error_code == ErrorCode.NONE
        assert joined.members[0].metadata == metadata
        synced = await fat.call(sync_request("fat", joined.member_id, 1, {joined.member_id: b"x"}), 3)
        assert synced.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await committed(friend, 1)
        again = await fat.call(join_with(b"\0\1", joined.member_id), 5)
        assert again.error_code == ErrorCode.NONE
        synced = await fat.call(
            sync_request("fat", joined.member_id, again.generation_id, {joined.member_id: b"x"}), 3
        )
        assert synced.error_code == ErrorCode.NONE


@pytest.mark.parametrize("piece", [1, 7])
async def test_many_clients_that_write_slowly_are_all_answered(tmp_path: Path, piece: int) -> None:
    async with serving(tmp_path) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(server)) for _ in range(50)]
        frames = [client.frame(commit(number), 2) for number, client in enumerate(clients)]
        for start in range(0, len(frames[0]), piece):
            for client, frame in zip(clients, frames, strict=True):
                client.writer.write(frame[start : start + piece])
            await asyncio.sleep(0)
        for client in clients:
            answer = await client.receive()
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
