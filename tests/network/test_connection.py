"""Arbitrary bytes: responses in order, or only this connection closed."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import ProduceRequest, TopicProduceData
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving, sync_request


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, {"socket.request.max.bytes": "100000"}) as server:
        yield server


async def lives(server: Server) -> bool:
    """Return whether the server responds to another client."""
    async with Client(server) as other:
        answer = await other.call(ApiVersionsRequest(), 0)
        return bool(answer.error_code == ErrorCode.NONE)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, client_id: bytes = b"\0\1c") -> bytes:
    return struct.pack(">hhi", api_key, version, 1) + client_id


HOSTILE = {
    "negative size": struct.pack(">i", -1) + bytes(20),
    "size of nothing": framed(b"") + bytes(20),
    "size below a header": framed(bytes(9)) + bytes(20),
    "oversized": struct.pack(">i", 100_001) + bytes(20),
    "huge": b"\x7f\xff\xff\xff" + bytes(20),
    "unknown key": framed(header(999, 0)),
    "negative key": framed(header(-1, 0)),
    "unknown version": framed(header(ApiKey.METADATA, 99)),
    "negative version": framed(header(ApiKey.METADATA, -1)),
    "client id past the end": framed(header(ApiKey.LIST_GROUPS, 0, b"\0\x50c")),
    "client id of negative length": framed(header(ApiKey.LIST_GROUPS, 0, b"\xff\xf0")),
    "client id that is not UTF-8": framed(header(ApiKey.LIST_GROUPS, 0, b"\0\2\xff\xfe")),
    "tags that never end": framed(header(ApiKey.LIST_GROUPS, 3) + b"\xff\xff\xff\xff\xff\xff\xff"),
    "body cut short": framed(header(ApiKey.HEARTBEAT, 0) + b"\0\x05gr"),
    "absurd array count": framed(header(ApiKey.DESCRIBE_GROUPS, 0) + b"\x7f\xff\xff\xff"),
    "negative array count": framed(header(ApiKey.DESCRIBE_GROUPS, 0) + b"\x80\0\0\0"),
    "string that is not UTF-8": framed(header(ApiKey.DESCRIBE_GROUPS, 0) + b"\0\0\0\1\0\2\xc3\x28"),
    "HTTP": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_bytes_cost_one_connection_and_one_line(
    server: Server, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server) as bystander:
        await bystander.call(ListGroupsRequest(), 0)
        async with Client(server) as hostile:
            caplog.clear()
            hostile.writer.write(data)
            assert await hostile.closed()
            port = hostile.writer.get_extra_info("sockname")[1]
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(lines) == 1, lines
        assert f"127.0.0.1:{port}" in lines[0]
        assert (await bystander.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
    assert await lives(server)


async def test_answers_before_the_hostile_bytes_still_arrive(server: Server) -> None:
    async with Client(server) as client:
        client.send(ListGroupsRequest(), 0)
        client.writer.write(HOSTILE["unknown key"])
        assert (await client.receive()).error_code == ErrorCode.NONE
        assert await client.closed()


async def test_a_client_that_sends_byte_by_byte_is_answered(server: Server) -> None:
    async with Client(server) as client:
        frame = client.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        for number in range(len(frame)):
            client.writer.write(frame[number : number + 1])
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.receive()).error_code == ErrorCode.NONE


async def test_bytes_after_the_end_of_a_request_are_left_alone_as_in_kafka(server: Server) -> None:
    async with Client(server) as client:
        for _ in range(2):
            frame = client.frame(ListGroupsRequest(), 0)
            client.writer.write(framed(frame[4:] + b"surplus"))
        assert (await client.receive()).error_code == ErrorCode.NONE
        assert (await client.receive()).error_code == ErrorCode.NONE


async def test_a_large_request_in_many_pieces_is_answered(server: Server) -> None:
    async with Client(server) as client:
        names = [f"group-{number}" * 3 for number in range(1500)]
        frame = client.frame(ListGroupsRequest(states_filter=names), 4)
        assert len(frame) > 40_000
        for start in range(0, len(frame), 1000):
            client.writer.write(frame[start : start + 1000])
            await asyncio.sleep(0)
        client.send(ListGroupsRequest(), 4)
        assert (await client.receive()).error_code == ErrorCode.NONE
        assert (await client.receive()).error_code == ErrorCode.NONE


async def test_clients_that_vanish_at_any_byte_disturb_nobody(server: Server) -> None:
    async with Client(server) as client:
        whole = client.frame(join_request("vanishing"), 3)
    for length in range(1, len(whole), 7):
        async with Client(server) as vanishing:
            vanishing.writer.write(whole[:length])
            vanishing.writer.transport.abort()
    assert await lives(server)
    await asyncio.wait_for(server.connections.emptied.wait(), 60)


async def test_a_client_that_vanishes_while_parked_is_forgotten_as_a_waiter(server: Server) -> None:
    async with Client(server) as first, Client(server) as second:
        member_id, generation_id = await join_alone(first, "g")
        second.send(join_request("g"), 3)
        answer = await first.call(heartbeat_request("g", member_id, generation_id), 3)
        while answer.error_code == ErrorCode.NONE:
            answer = await first.call(heartbeat_request("g", member_id, generation_id), 3)
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        second.writer.transport.abort()
        rejoined = await first.call(join_request("g", member_id), 3)
        assert rejoined.error_code == ErrorCode.NONE
        assert len(rejoined.members) == 2  # the member stays until its session ends, as in Kafka


def commit(group: str, offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])]
    )


async def test_pipelined_answers_come_in_the_order_of_the_requests(server: Server) -> None:
    """Commits wait for the disk, the others do not; none overtakes another."""
    async with Client(server) as client:
        for number in range(100):
            client.send(commit("simple", number), 2)
            client.send(heartbeat_request("nobody", "m", 1), 3)
            client.send(MetadataRequest(topics=[]), 1)
            client.send(ListGroupsRequest(), 0)
        for _ in range(100):
            committed = await client.receive()
            assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert (await client.receive()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert len((await client.receive()).brokers) == 1
            assert (await client.receive()).error_code == ErrorCode.NONE


async def test_a_parked_request_holds_back_the_later_ones_of_its_connection(server: Server) -> None:
    async with Client(server) as leader, Client(server) as follower:
        member_id, generation_id = await join_alone(leader, "g")
        follower.send(join_request("g"), 3)  # parked until the leader rejoins
        follower.send(commit("other", 1), 2)
        follower.send(ListGroupsRequest(), 0)
        while (await leader.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0:
            pass
        groups = (await leader.call(ListGroupsRequest(), 0)).groups
        assert [group.group_id for group in groups] == ["g"]  # the follower's commit was not processed
        assert (await leader.call(join_request("g", member_id), 3)).error_code == ErrorCode.NONE
        assert (await follower.receive()).error_code == ErrorCode.NONE
        assert (await follower.receive()).topics[0].partitions[0].error_code == ErrorCode.NONE
        assert {group.group_id for group in (await follower.receive()).groups} == {"g", "other"}


async def test_input_of_a_held_connection_is_bounded(server: Server) -> None:
    async with Client(server) as leader, Client(server) as follower:
        member_id, generation_id = await join_alone(leader, "g")
        follower.send(join_request("g"), 3)
        while (await leader.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0:
            pass
        large = ListGroupsRequest(states_filter=["x" * 30_000] * 3)
        for _ in range(300):
            follower.send(large, 4)
        for _ in range(50):
            await leader.call(ListGroupsRequest(), 0)
        # 27 MB are more than the kernel's buffers and ours hold: most of it is left with the client.
        assert follower.writer.transport.get_write_buffer_size() > 10_000_000
        assert (await leader.call(join_request("g", member_id), 3)).error_code == ErrorCode.NONE
        assert (await follower.receive()).error_code == ErrorCode.NONE
        for _ in range(300):
            assert (await follower.receive()).error_code == ErrorCode.NONE


async def test_a_client_that_does_not_read_stops_being_served(server: Server) -> None:
    async with Client(server) as slow:
        asked = 3000
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(asked):
            slow.send(ApiVersionsRequest(), 0)
        assert await lives(server)
        counts = server.routes.counts[ApiKey.API_VERSIONS]
        connection = next(iter(server.connections.open))
        assert connection is not None
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(asked):
            assert (await slow.receive()).error_code == ErrorCode.NONE
        assert sum(counts.buckets) == asked + 1


async def test_a_repeated_heartbeat_is_judged_anew_each_time(server: Server) -> None:
    async with Client(server) as client, Client(server) as other:
        member_id, generation_id = await join_alone(client, "g")
        for _ in range(3):
            assert (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0
        other.send(join_request("g"), 3)
        while (await client.call(heartbeat_request("g", member_id, generation_id), 3)).error_code == 0:
            pass
        rejoined = await client.call(join_request("g", member_id), 3)
        stale = await client.call(heartbeat_request("g", member_id, generation_id), 3)
        assert stale.error_code == ErrorCode.ILLEGAL_GENERATION
        fresh = await client.call(heartbeat_request("g", member_id, rejoined.generation_id), 3)
        assert fresh.error_code == ErrorCode.NONE
        synced = sync_request("g", member_id, rejoined.generation_id, {member_id: b"x"})
        assert (await client.call(synced, 3)).error_code == ErrorCode.NONE


async def test_repeated_heartbeats_in_one_write_are_each_answered_in_order(server: Server) -> None:
    async with Client(server) as client:
        member_id, generation_id = await join_alone(client, "g")
        heartbeat = heartbeat_request("g", member_id, generation_id)
        await client.call(heartbeat, 4)
        for count in (1, 2, 50):
            client.writer.write(b"".join(client.frame(heartbeat, 4) for _ in range(count)))
            for _ in range(count):
                assert (await client.receive()).error_code == ErrorCode.NONE
        stale = heartbeat_request("g", member_id, generation_id - 1)
        mixed = [heartbeat, heartbeat, stale, heartbeat]
        client.writer.write(b"".join(client.frame(request, 4) for request in mixed))
        errors = [(await client.receive()).error_code for _ in mixed]
        assert errors == [0, 0, ErrorCode.ILLEGAL_GENERATION, 0]


async def test_a_parked_fetch_is_answered_after_its_wait(server: Server) -> None:
    async with Client(server) as client:
        answer = await client.call(FetchRequest(max_wait_ms=30, min_bytes=1, topics=[]), 11)
        assert answer.error_code == ErrorCode.NONE


async def test_many_idle_connections_are_held_and_closed(server: Server) -> None:
    clients = [Client(server) for _ in range(300)]
    for client in clients:
        await client.__aenter__()
    assert await lives(server)
    assert len(server.connections.open) >= 300
    for client in clients:
        client.writer.transport.abort()
    await asyncio.wait_for(server.connections.emptied.wait(), 60)


@pytest.mark.parametrize("key", [ApiKey.FIND_COORDINATOR, ApiKey.PRODUCE])
async def test_a_request_of_a_great_many_tiny_things_costs_its_connection(
    tmp_path: Path, key: ApiKey
) -> None:
    """A thing may take one byte of the request, and much more of memory and time."""
    things = APIS[key].max_elements + 1
    coordinators = FindCoordinatorRequest(coordinator_keys=[""] * things)
    topics = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(partition_data=[])] * things)
    async with serving(tmp_path) as server, Client(server) as client:
        client.send(topics if key == ApiKey.PRODUCE else coordinators, APIS[key].versions.last)
        assert await client.closed()
        assert await lives(server)


async def test_only_a_produce_request_may_be_very_large(tmp_path: Path) -> None:
    size = 17 * 1024 * 1024
    async with serving(tmp_path) as server:
        for start in (struct.pack(">ihh", size, ApiKey.LIST_GROUPS, 4), struct.pack(">i", size)):
            async with Client(server) as client:
                client.writer.write(start)
                await client.writer.drain()
                if len(start) == 4:
                    client.writer.write(struct.pack(">hh", ApiKey.JOIN_GROUP, 3))
                assert await client.closed()
        async with Client(server) as producer:
            producer.writer.write(struct.pack(">ihhi", size, ApiKey.PRODUCE, 7, 1) + b"\xff\xff")
            producer.writer.write(bytes(size - 10))
            # No topics, acks 0, and much surplus: nothing to answer, and the connection goes on.
            assert (await producer.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
