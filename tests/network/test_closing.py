"""What a client has sent whole before it closes its connection, and wants no answer to."""

import asyncio

import pytest

from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.compression import GZIP, NONE
from storage.record import Record
from tests.broker.harness import Client, serving


def produce(records: int, codec: int) -> ProduceRequest:
    batch = encode_batch([Record(-1, -1, b"k", b"v" * 900)] * records, codec=codec)
    topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])]
    return ProduceRequest(transactional_id=None, acks=0, timeout_ms=1000, topic_data=topics)


async def end_offset(client: Client) -> int:
    parts = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=parts)])
    return int((await client.call(request, 2)).topics[0].partitions[0].offset)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize(("requests", "records"), [(1, 800), (5, 800), (200, 15)])
async def test_it_is_written(requests: int, records: int, codec: int) -> None:
    async with serving() as server, Client(server) as friend:
        async with Client(server) as hasty:
            frame = hasty.frame(produce(records, codec), 9)
            hasty.writer.write(frame * requests)
            await hasty.writer.drain()
        async with asyncio.timeout(60):
            while await end_offset(friend) < requests * records:
                pass
        while len(server.connections.open) > 1:
            await end_offset(friend)


async def test_what_is_looked_at_is_written_though_its_connection_was_cut() -> None:
    async with serving() as server, Client(server) as friend:
        async with Client(server) as hasty:
            hasty.send(produce(900, GZIP), 9)
            await hasty.writer.drain()
            while not len(server.request_tasks) and await end_offset(friend) < 900:
                pass
            for connection in list(server.connections.open):
                if connection.unanswered_requests:
                    connection.abort()
        async with asyncio.timeout(60):
            while await end_offset(friend) < 900:
                pass
        assert not len(server.request_tasks)
