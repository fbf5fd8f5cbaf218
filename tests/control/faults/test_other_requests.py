"""Faults on requests that take other ways: of very many elements, of the data plane, without an answer."""

import asyncio
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.broker.harness import TIMEOUT_S, Client
from tests.control.faults.lab import Lab

MANY = 5_000
"""Partitions of a request that is decoded in a thread, and answered in steps."""
AT = pytest.mark.parametrize("at", ["request", "answer"])


def large_fetch() -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(MANY)))
    return OffsetFetchRequest(group_id="g", topics=[topic])


def fetch_records() -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=10, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="orders", partitions=[part])]
    )


def produce(acks: int) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, b"x")]))
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[part])]
    )


@AT
@pytest.mark.parametrize("action", [{"hold": True}, {"delay": 5}, {"error": "NETWORK_EXCEPTION"}], ids=str)
async def test_a_request_of_very_many_partitions(lab: Lab, at: str, action: dict[str, Any]) -> None:
    name = lab.fault({"api": "OffsetFetch"}, do={"at": at, **action})
    async with Client(lab.server) as client:
        client.send(large_fetch(), 5)
        client.send(ListGroupsRequest(), 0)
        await lab.hit(name)
        if "hold" in action:
            assert lab.faults.release_fault(name).released == 1
        answer = await client.receive()
        assert answer.error_code == (ErrorCode.NETWORK_EXCEPTION if "error" in action else 0)
        assert [len(topic.partitions) for topic in answer.topics] == ([] if "error" in action else [MANY])
        assert (await client.receive()).error_code == 0
    lab.faults.remove_all()
    await lab.until_plain()


@AT
async def test_a_request_of_very_many_partitions_is_dropped(lab: Lab, at: str) -> None:
    lab.fault({"api": "OffsetFetch"}, do={"at": at, "drop": True})
    async with Client(lab.server) as client:
        client.send(large_fetch(), 5)
        assert await client.closed()
    lab.faults.remove_all()
    await lab.until_plain()


@AT
@pytest.mark.parametrize("api", ["Metadata", "Fetch", "Produce"])
async def test_the_data_plane(lab: Lab, at: str, api: str) -> None:
    request, version = {
        "Metadata": (MetadataRequest(topics=None), 1),
        "Fetch": (fetch_records(), 4),
        "Produce": (produce(-1), 3),
    }[api]
    name = lab.fault({"api": api}, do={"at": at, "hold": True})
    async with Client(lab.server) as client:
        client.send(request, version)
        client.send(ListGroupsRequest(), 0)
        await lab.hit(name)
        lab.faults.release_fault(name)
        assert await client.receive()
        assert (await client.receive()).error_code == 0


async def test_a_topic_of_the_data_plane(lab: Lab) -> None:
    name = lab.fault(
        {"topic": "ord*", "api": ["Produce", "Fetch"]}, times=None, do={"at": "answer", "delay": 1}
    )
    async with Client(lab.server) as client:
        await client.call(produce(-1), 3)
        await client.call(fetch_records(), 4)
        await client.call(MetadataRequest(topics=None), 1)
    assert lab.status(name).hit == 2


async def test_requests_without_an_answer_match_no_answer_fault(lab: Lab) -> None:
    """A Produce that wants none is held all the same, and takes place when it is released."""
    at_answer = lab.fault({"api": "Produce"}, do={"at": "answer", "drop": True})
    held = lab.fault({"api": "Produce"}, do={"at": "request", "hold": True})
    async with Client(lab.server) as client:
        client.writer.write(client.frame(produce(0), 3))
        client._sent.pop()
        client.send(ListGroupsRequest(), 0)
        await lab.hit(held)
        lab.faults.release_fault(held)
        assert (await client.receive()).error_code == 0
        found = await client.call(fetch_records(), 4)
        assert found.responses[0].partitions[0].high_watermark == 1
    assert lab.status(at_answer).hit == 0


@AT
async def test_a_disconnection_during_long_work_is_harmless(lab: Lab, at: str) -> None:
    """A thread creates topics. groupd does not keep a closed connection for a held response."""
    name = lab.fault({"api": "CreateTopics"}, do={"at": at, "swallow": True})
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    async with Client(lab.server) as client:
        client.send(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 2)
        await lab.hit(name)
    async with Client(lab.server) as other, asyncio.timeout(TIMEOUT_S):
        while lab.status(name).holding:
            await other.call(ListGroupsRequest(), 0)
    lab.faults.remove_all()
    await lab.until_plain()
