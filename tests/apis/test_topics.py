"""Topic requests through the server: silence, long polls, syncing, and a disk that fails."""

import asyncio
import errno
import logging
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.batch_validation import examine_batches
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from storage.segment import LogSegment
from tests.broker.harness import Client, serving, settings, start
from tests.broker.test_log_cleaner import one_turn
from tests.storage.faulty_files import FaultyFiles

VERSION = 7


def produce(value: bytes, *, acks: int = -1, topic: str = "orders") -> ProduceRequest:
    part = PartitionProduceData(index=0, records=encode_batch([Record(-1, 1_700_000_000_000, None, value)]))
    data = [TopicProduceData(name=topic, partition_data=[part])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)


def fetch(offset: int, *, max_wait_ms: int = 10_000) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[part])]
    )


@pytest.mark.parametrize("flush", ["os", "interval", "always"])
async def test_a_parked_fetch_is_woken_by_a_record(flush: str) -> None:
    async with (
        serving(None, {"log.flush": flush}) as server,
        Client(server) as reader,
        Client(server) as writer,
    ):
        reader.send(fetch(0), 11)
        answer = await writer.call(produce(b"hello"), VERSION)
        part = answer.responses[0].partition_responses[0]
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 0)
        records = (await reader.receive()).responses[0].partitions[0].records
        assert b"hello" in records


async def test_a_parked_fetch_ends_when_its_time_is_up() -> None:
    async with serving() as server, Client(server) as first, Client(server) as second:
        second.send(fetch(0, max_wait_ms=60), 11)
        first.send(fetch(0, max_wait_ms=20), 11)
        assert not (await first.receive()).responses[0].partitions[0].records
        assert not (await second.receive()).responses[0].partitions[0].records


async def test_a_fetch_without_an_index_waits_for_a_thread_and_holds_up_no_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread cannot end before the neighbour has its response."""
    small = {"log.segment.bytes": str(2**20)}
    async with serving(tmp_path, small) as server, Client(server) as writer:
        for number in range(2):
            await writer.call(produce(bytes([number]) * 900_000), VERSION)
    index, _ = sorted((tmp_path / "orders-0").glob("*.index"))
    index.unlink()
    begun, may_end = threading.Event(), threading.Event()
    rebuild = LogSegment.rebuild_indexes

    def rebuild_later(segment: LogSegment, index_interval_bytes: int) -> None:
        begun.set()
        assert may_end.wait(10)
        rebuild(segment, index_interval_bytes)

    monkeypatch.setattr(LogSegment, "rebuild_indexes", rebuild_later)
    async with serving(tmp_path, small) as server, Client(server) as reader, Client(server) as neighbour:
        reader.send(fetch(0), 11)
        assert await asyncio.to_thread(begun.wait, 10)
        assert (await neighbour.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        may_end.set()
        part = (await reader.receive()).responses[0].partitions[0]
        assert (part.error_code, len(part.records) > 900_000) == (ErrorCode.NONE, True)


async def test_a_reader_that_vanishes_while_parked_leaves_nothing_behind() -> None:
    async with serving() as server, Client(server) as writer:
        async with Client(server) as reader:
            reader.send(fetch(0, max_wait_ms=60_000), 11)
            while not len(server.data_plane.fetch_purgatory):
                await writer.call(ListGroupsRequest(), 0)
            reader.writer.transport.abort()
        while len(server.data_plane.fetch_purgatory):
            await writer.call(ListGroupsRequest(), 0)
        answer = await writer.call(produce(b"x"), VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("flush", ["os", "interval", "always"])
async def test_acks_0_is_answered_with_nothing_and_can_be_read(flush: str) -> None:
    async with serving(None, {"log.flush": flush}) as server, Client(server) as client:
        frame = client.frame(produce(b"quiet", acks=0), VERSION)
        client._sent.clear()
        client.writer.write(frame)
        answer = await client.call(fetch(0), 11)
        assert b"quiet" in answer.responses[0].partitions[0].records


async def test_acks_0_and_an_error_close_the_connection_after_the_earlier_answers() -> None:
    async with serving(None, {"auto.create.topics.enable": "false"}) as server, Client(server) as client:
        frame = client.frame(ListGroupsRequest(), 0)
        bad = client.frame(produce(b"x", acks=0, topic="nowhere"), VERSION)
        client.writer.write(frame + bad + client.frame(ListGroupsRequest(), 0))
        assert (await client.receive()).error_code == ErrorCode.NONE
        assert await client.closed()


async def test_a_record_that_may_be_lost_is_not_acknowledged() -> None:
    files = FaultyFiles()
    properties = {"log.flush": "always", "offsets.topic.num.partitions": "1"}
    server = await start(settings("/data", properties, topics=[("orders", 1)], files=files))
    async with Client(server) as client:
        good = await client.call(produce(b"good"), VERSION)
        assert good.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        files.fail("fdatasync", error=errno.EIO, times=2)  # the journal, and the segment in its place
        bad = await client.call(produce(b"bad"), VERSION)
        assert bad.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        error = ErrorCode.KAFKA_STORAGE_ERROR
        while error != ErrorCode.NONE:
            again = await client.call(produce(b"again"), VERSION)
            error = again.responses[0].partition_responses[0].error_code
            await asyncio.sleep(0)
        survivor = files.crash()
    server.abandon()
    settings_again = settings("/data", properties, files=survivor)
    server = await start(settings_again)
    async with Client(server) as client:
        records = (await client.call(fetch(0), 11)).responses[0].partitions[0].records
        assert b"good" in records
        assert b"again" in records
    await server.close()


async def test_records_of_a_topic_that_is_deleted_before_they_are_synced_are_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(None, {"log.flush": "always"}) as server, Client(server) as client:
        frames = [
            client.frame(produce(b"soon gone"), VERSION),
            client.frame(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5),
            client.frame(produce(b"too late"), VERSION),
        ]
        client.writer.write(b"".join(frames))
        written = await client.receive()
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert (await client.receive()).responses[0].error_code == ErrorCode.NONE
        refused = (await client.receive()).responses[0].partition_responses[0]
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert server.topics.waiter_count == 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_topics_are_there_after_a_restart(tmp_path: Path) -> None:
    topic = CreatableTopic(name="made", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    async with serving(tmp_path) as server, Client(server) as client:
        created = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert created.topics[0].error_code == ErrorCode.NONE
    async with serving(tmp_path) as server, Client(server) as client:
        again = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_large_produce_keeps_its_memory_until_it_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, is_cut_off: bool
) -> None:
    """The batch of a disconnected client waits as well. Then other requests get the memory."""
    goes_on = threading.Event()

    def examine(*arguments: Any, may_refuse: bool) -> Any:
        assert not may_refuse or goes_on.wait(60)
        return examine_batches(*arguments, may_refuse=may_refuse)

    monkeypatch.setattr("coordinator.topics.produce.examine_batches", examine)
    large = produce(b"")
    records = [Record(-1, 1_700_000_000_000, None, bytes(50)) for _ in range(16_000)]
    large.topic_data[0].partition_data[0].records = encode_batch(records)
    bounded = {"queued.max.request.bytes": "1000000", "socket.request.max.bytes": "1000000"}
    async with serving(None, bounded) as server, Client(server) as second, Client(server) as third:
        memory = server.connections.memory
        async with Client(server) as first:
            first.send(large, 9)
            while not len(server.request_tasks):
                await one_turn()
            if is_cut_off:
                reset = struct.pack("ii", 1, 0)
                first.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                first.writer.transport.abort()
                while len(server.connections.open) > 2:
                    await one_turn()
            assert memory.reserved_bytes > 900_000
            for other in (second, third):
                other.send(large, 9)
            while not memory.waiting_count:
                await one_turn()
            goes_on.set()
            for each in (second, third) if is_cut_off else (first, second, third):
                answer = await each.receive()
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert memory.reserved_bytes == 0
