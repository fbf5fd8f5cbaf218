"""Produce of a transaction through the server: it waits for the coordinator, and others do not."""

import asyncio
import socket
import struct
from pathlib import Path

from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, serving
from tests.broker.test_log_cleaner import one_turn
from tests.topics.transacting import transactional

V = 12
READ_COMMITTED = 1


def produce(producer_id: int = 7, epoch: int = 0, sequence: int = 0, *, acks: int = -1) -> ProduceRequest:
    records = transactional(producer_id, epoch, sequence, time_ms=1_700_000_000_000)
    part = PartitionProduceData(index=0, records=records)
    data = [TopicProduceData(name="orders", partition_data=[part])]
    return ProduceRequest(transactional_id="t", acks=acks, timeout_ms=1000, topic_data=data)


def fetch(offset: int = 0) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        max_wait_ms=10_000,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic="orders", partitions=[part])],
    )


def commit(producer_id: int, epoch: int) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="t", producer_id=producer_id, producer_epoch=epoch, committed=True)


async def initialized(client: Client) -> tuple[int, int]:
    """A producer id and epoch, once the coordinator is there."""
    find = FindCoordinatorRequest(key="t", key_type=1)
    assert (await client.call(find, 3)).error_code == ErrorCode.NONE
    begin = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=10_000)
    while (begun := await client.call(begin, 5)).error_code:
        assert ErrorCode(begun.error_code).retriable
    return begun.producer_id, begun.producer_epoch


async def test_a_batch_waits_for_the_coordinator_and_others_do_not_wait_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as writer, Client(server) as other:
        asked: asyncio.Queue[AddOrVerifyRequest] = asyncio.Queue()
        verified: asyncio.Future[AddOrVerifyResult] = asyncio.get_running_loop().create_future()

        def ask(question: AddOrVerifyRequest) -> asyncio.Future[AddOrVerifyResult]:
            asked.put_nowait(question)
            return verified

        server.topics.services.add_or_verify_partitions = ask
        writer.send(produce(), V)
        question = await asked.get()
        partition = TopicPartition("orders", 0)
        assert question == AddOrVerifyRequest("t", 7, 0, [partition], adds=True, is_abortable=True)
        assert (await other.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        verified.set_result({partition: ErrorCode.NONE})
        part = (await writer.receive()).responses[0].partition_responses[0]
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 0)


async def test_what_nobody_waits_for_is_written_all_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, Client(server) as reader:
        asked: asyncio.Queue[AddOrVerifyRequest] = asyncio.Queue()
        verified: asyncio.Future[AddOrVerifyResult] = asyncio.get_running_loop().create_future()

        def ask(question: AddOrVerifyRequest) -> asyncio.Future[AddOrVerifyResult]:
            asked.put_nowait(question)
            return verified

        server.topics.services.add_or_verify_partitions = ask
        async with Client(server) as writer:
            writer.writer.write(writer.frame(produce(acks=0), V))
            question = await asked.get()
            reset = struct.pack("ii", 1, 0)
            writer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.writer.transport.abort()
        while len(server.connections.open) > 1:
            await one_turn()
        request = fetch()
        request.isolation_level = 0
        reader.send(request, V)
        verified.set_result(dict.fromkeys(question.partitions, ErrorCode.NONE))
        assert (await reader.receive()).responses[0].partitions[0].records


async def test_a_consumer_of_committed_records_is_woken_by_the_end(tmp_path: Path) -> None:
    for flush in ("os", "always"):
        async with (
            serving(tmp_path / flush, {"log.flush": flush}) as server,
            Client(server) as reader,
            Client(server) as writer,
        ):
            producer_id, epoch = await initialized(writer)
            sent = await writer.call(produce(producer_id, epoch), V)
            assert sent.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            reader.send(fetch(), V)
            ended = await writer.call(commit(producer_id, epoch), 5)
            assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, epoch + 1)
            data = (await reader.receive()).responses[0].partitions[0]
            assert (data.last_stable_offset, data.aborted_transactions) == (2, [])
            assert data.records


async def test_the_next_transaction_begins_as_soon_as_the_last_one_has_ended(tmp_path: Path) -> None:
    properties = {
        "add.partitions.to.txn.retry.backoff.ms": "3600000",
        "add.partitions.to.txn.retry.backoff.max.ms": "7200000",
    }
    async with serving(tmp_path, properties) as server, Client(server) as writer:
        producer_id, epoch = await initialized(writer)
        assert (await writer.call(produce(producer_id, epoch), V)).responses[0].partition_responses
        writer.send(commit(producer_id, epoch), 5)
        # It knows its next epoch, and comes before the end is on the disk.
        writer.send(produce(producer_id, epoch + 1), V)
        ended = await writer.receive()
        assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, epoch + 1)
        part = (await writer.receive()).responses[0].partition_responses[0]
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 2)
