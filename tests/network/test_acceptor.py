"""The limits of connections, over real sockets and with small numbers, and their metrics and log lines."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.config.config_errors import ConfigError
from coordinator.core import clock
from coordinator.core.daemon_log import LINES_PER_PERIOD
from coordinator.http.metric_collectors import ServerMetricsCollector
from coordinator.network.connection_limits import create_connection_limits
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.broker.harness import Client, join_alone, join_request, read_metrics, serving, settings


async def is_served(client: Client) -> bool:
    answer = await client.call(ListGroupsRequest(), 0)
    return bool(answer.error_code == ErrorCode.NONE)


async def passes(server: Server) -> None:
    """Let the server complete its pending work."""
    async with Client(server) as client:
        await is_served(client)


def metric(server: Server, name: str) -> float:
    """A value of /metrics that has no labels."""
    samples = {
        sample.name: sample.value
        for family in ServerMetricsCollector(read_metrics(server)).collect()
        for sample in family.samples
    }
    return samples[name]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "properties",
    [
        {"max.connections.per.ip": "2"},
        {"max.connections.per.ip.overrides": "127.0.0.1:2,10.0.0.1:1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:2,127.0.0.1:2"},
    ],
)
async def test_connections_beyond_the_limit_of_their_address_are_turned_away(
    tmp_path: Path, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, properties) as server, Client(server) as first:
        assert await is_served(first)
        async with Client(server) as second:
            assert await is_served(second)
            async with Client(server) as third:
                assert await third.closed()
                port = third.writer.get_extra_info("sockname")[1]
            lines = warnings(caplog)
            assert len(lines) == 1
            assert f"127.0.0.1:{port}" in lines[0]
            assert metric(server, "groupd_connections_refused_total") == 1
            assert await is_served(first)
            second.writer.transport.abort()
        while len(server.connections.open) > 1:
            await is_served(first)
        async with Client(server) as fourth:
            assert await is_served(fourth)


async def test_when_there_are_as_many_connections_as_there_may_be_new_ones_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka, the acceptor waits and rejects no connection."""
    async with serving(tmp_path, {"max.connections": "2"}) as server, Client(server) as first:
        assert await is_served(first)
        async with AsyncExitStack() as stack:
            second = await stack.enter_async_context(Client(server))
            assert await is_served(second)
            waiting = [await stack.enter_async_context(Client(server)) for _ in range(3)]
            for client in waiting:
                client.send(ListGroupsRequest(), 0)
            for _ in range(20):
                assert await is_served(first)
            assert len(server.connections.open) == 2
            assert len(warnings(caplog)) == 1
            assert metric(server, "groupd_connections_full_seconds_total") > 0
            leaving = second
            for client in waiting:
                leaving.writer.transport.abort()
                assert (await client.receive()).error_code == ErrorCode.NONE
                leaving = client
            assert metric(server, "groupd_connections_refused_total") == 0
    assert not server.connections.open


async def test_a_daemon_that_is_full_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.broker.server.CLOSE_TIMEOUT_S", 3600.0)
    async with serving(tmp_path, {"max.connections": "1"}) as server:
        client, waiting = Client(server), Client(server)
        async with client, waiting:
            assert await is_served(client)
            waiting.send(ListGroupsRequest(), 0)
            assert await is_served(client)
            await asyncio.wait_for(server.close(), 60)
            assert await waiting.closed()


@pytest.mark.parametrize(
    "properties",
    [
        {"max.connections.per.ip": "0"},
        {"max.connections.per.ip.overrides": "nonsense"},
        {"max.connections.per.ip.overrides": "127.0.0.1:many"},
        {"max.connections.per.ip.overrides": "no host of this name:1"},
        {"queued.max.request.bytes": "1000"},
        {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1001"},
    ],
)
def test_limits_that_cannot_be_are_named(properties: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"max\."):
        create_connection_limits(settings(tmp_path, properties).config)


async def test_a_silent_connection_is_closed_but_not_one_that_awaits_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    properties = {"connections.max.idle.ms": "150", "group.initial.rebalance.delay.ms": "60000"}
    async with serving(tmp_path, properties) as server, Client(server) as idle, Client(server) as parked:
        parked.send(join_request("g"), 3)
        assert await idle.closed()
        assert len(server.connections.open) == 1
        assert metric(server, "groupd_connections_closed_idle_total") == 1
        assert metric(server, "groupd_unanswered_requests") == 1
        assert metric(server, "groupd_waiters") == 1
        parked.writer.transport.abort()
        await asyncio.wait_for(server.connections.emptied.wait(), 60)
        assert metric(server, "groupd_waiters") == 0
        port = idle.writer.get_extra_info("sockname")[1]
        assert sum(f"127.0.0.1:{port}" in record.getMessage() for record in caplog.records) == 1


async def test_without_an_idle_time_nothing_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, {"connections.max.idle.ms": "-1"}) as server, Client(server) as client:
        await is_served(client)
        server.connections.close_idle()
        assert await is_served(client)


async def test_a_flood_of_nonsense_gets_few_lines_and_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flood = 3 * LINES_PER_PERIOD
    async with serving(tmp_path) as server:
        for _ in range(flood):
            async with Client(server) as client:
                client.writer.write(bytes(20))
                assert await client.closed()
        assert len(warnings(caplog)) == LINES_PER_PERIOD
        server.connections.line_limit.log_summary()
        lines = warnings(caplog)
        assert len(lines) == LINES_PER_PERIOD + 1
        assert str(flood - LINES_PER_PERIOD) in lines[-1]
        assert metric(server, "groupd_connections_refused_total") == flood
        async with Client(server) as client:
            client.writer.write(bytes(20))
            assert await client.closed()
        assert len(warnings(caplog)) == LINES_PER_PERIOD + 2


LIMIT = 200_000


@pytest.fixture
async def bounded(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that receives little at a time."""
    properties = {"socket.request.max.bytes": str(LIMIT), "queued.max.request.bytes": str(LIMIT)}
    async with serving(tmp_path, properties) as server:
        yield server


def large(size: int) -> ListGroupsRequest:
    """A request of about `size` bytes."""
    return ListGroupsRequest(states_filter=["x" * 30_000] * (size // 30_000))


async def half_sent(clients: Iterable[Client]) -> list[bytes]:
    """Send a part of a request on each connection; return the remaining bytes."""
    left = []
    for client in clients:
        frame = client.frame(large(LIMIT - 10_000), 4)
        client.writer.write(frame[:1000])
        await client.writer.drain()
        left.append(frame[1000:])
    return left


async def test_requests_being_received_share_a_bound_and_all_get_through(bounded: Server) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(bounded)) for _ in range(6)]
        rest = await half_sent(clients)
        await passes(bounded)
        while metric(bounded, "groupd_connections_awaiting_memory") < 4:
            await passes(bounded)
        assert LIMIT < metric(bounded, "groupd_request_bytes") < 2 * LIMIT
        for client, data in zip(clients, rest, strict=True):
            client.writer.write(data)
        for client in clients:
            assert (await client.receive()).error_code == ErrorCode.NONE
        assert metric(bounded, "groupd_request_bytes") == 0
        assert metric(bounded, "groupd_connections_awaiting_memory") == 0
        for client in clients:
            assert await is_served(client)


async def test_whoever_vanishes_gives_back_what_its_request_had(bounded: Server) -> None:
    async with Client(bounded) as patient:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(bounded)) for _ in range(4)]
            await half_sent(clients)
            while metric(bounded, "groupd_connections_awaiting_memory") < 2:
                await passes(bounded)
            rest = await half_sent([patient])
            patient.writer.write(rest[0])
            for client in clients:
                client.writer.transport.abort()
        assert (await patient.receive()).error_code == ErrorCode.NONE
        assert metric(bounded, "groupd_request_bytes") == 0


async def test_a_connection_whose_request_is_parked_takes_none_of_it(bounded: Server) -> None:
    async with Client(bounded) as leader, Client(bounded) as follower:
        await join_alone(leader, "g")
        follower.send(join_request("g"), 3)
        rest = await half_sent([follower])
        while metric(bounded, "groupd_unanswered_requests") < 1:
            await passes(bounded)
        follower.writer.write(rest[0])
        await passes(bounded)
        assert metric(bounded, "groupd_request_bytes") == 0


BATCH_BYTES = 900_000
BATCHES = 20


async def produced(client: Client) -> None:
    """Write more records to a partition than the kernel buffers for a connection."""
    records = encode_batch([Record(0, clock.now().wall_ms, None, b"x" * BATCH_BYTES)])
    part = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="orders", partition_data=[part])
    for _ in range(BATCHES):
        answer = await client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 7)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def fetch_all() -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2 * BATCHES * BATCH_BYTES)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[part])])


async def test_a_peer_that_reads_nothing_holds_one_answer_however_much_it_asks_for(tmp_path: Path) -> None:
    asked = 4
    async with serving(tmp_path) as server, Client(server) as client:
        await produced(client)
        for _ in range(asked):
            client.send(fetch_all(), 7)  # the stream reader pauses while its data is not consumed
        while metric(server, "groupd_answer_bytes") == 0:
            await passes(server)
        for _ in range(5):
            await passes(server)
        assert metric(server, "groupd_answer_bytes") < 1.5 * BATCHES * BATCH_BYTES
        assert sum(server.routes.counts[ApiKey.FETCH].buckets) <= 2
        for _ in range(asked):
            answer = await client.receive()
            assert len(answer.responses[0].partitions[0].records) > BATCHES * BATCH_BYTES
        assert metric(server, "groupd_answer_bytes") == 0


async def test_many_peers_that_read_nothing_hold_a_bound_and_a_batch_each(tmp_path: Path) -> None:
    peers = 12
    async with serving(tmp_path) as server, AsyncExitStack() as stack:
        friend = await stack.enter_async_context(Client(server))
        await produced(friend)
        unread = server.connections.unread_responses
        unread.limit_bytes = limit = 2 * BATCHES * BATCH_BYTES
        clients = [await stack.enter_async_context(Client(server)) for _ in range(peers)]
        for number, client in enumerate(clients, 1):
            client.send(fetch_all(), 7)
            while len([one for one in server.connections.open if one.answer_bytes]) < min(number, 2):
                await passes(server)
        for _ in range(5):
            await passes(server)
        assert metric(server, "groupd_answer_bytes") < unread.limit_bytes
        unread.limit_bytes = unread.held_bytes
        # A request now gets a batch: every client makes progress.
        friend.send(fetch_all(), 7)
        answer = await friend.receive()
        assert 0 < len(answer.responses[0].partitions[0].records) < 2 * BATCH_BYTES
        for client in clients:
            assert (await client.receive()).responses[0].partitions[0].records
        assert unread.held_bytes == 0
        unread.limit_bytes = limit
        friend.send(fetch_all(), 7)
        answer = await friend.receive()
        assert len(answer.responses[0].partitions[0].records) > BATCHES * BATCH_BYTES


async def test_many_fetches_that_are_answered_at_once_share_the_bound(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, AsyncExitStack() as stack:
        writer = await stack.enter_async_context(Client(server))
        clients = [await stack.enter_async_context(Client(server)) for _ in range(8)]
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2 * BATCHES * BATCH_BYTES)
        topics = [FetchTopic(topic="orders", partitions=[part])]
        min_bytes = (BATCHES - 1) * BATCH_BYTES
        for client in clients:
            client.send(FetchRequest(max_wait_ms=60_000, min_bytes=min_bytes, topics=topics), 7)
        while metric(server, "groupd_waiters") < len(clients):
            await passes(server)
        server.connections.unread_responses.limit_bytes = 2 * BATCHES * BATCH_BYTES
        await produced(writer)
        sizes = [
            len((await client.receive()).responses[0].partitions[0].records or b"") for client in clients
        ]
        assert min(sizes) > 0
        assert sum(sizes) < 2 * BATCHES * BATCH_BYTES + len(clients) * 2 * BATCH_BYTES


async def test_slow_reading_is_a_sign_of_life(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as slow:
        await produced(slow)
        connection = next(iter(server.connections.open))
        slow.send(fetch_all(), 7)
        while metric(server, "groupd_answer_bytes") == 0:
            await passes(server)
        asked_ns = connection.last_received_ns
        assert connection.is_idle_since(asked_ns + 1)
        assert connection.is_idle_since(asked_ns + 1)
        before = metric(server, "groupd_answer_bytes")
        while metric(server, "groupd_answer_bytes") == before:
            await slow.reader.readexactly(100_000)
        assert not connection.is_idle_since(asked_ns + 1)
