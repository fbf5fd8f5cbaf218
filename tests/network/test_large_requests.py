"""Requests of many elements, decoded in another thread and answered in steps, with other requests in between."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coordinator.broker.server import Server
from coordinator.core.time_budget import run_in_one_step
from coordinator.topics.long_work import IN_ONE_STEP
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.harness import Client, serving

STRANGERS = 10_000
"""Unknown topics that make a commit take many time slices."""
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server) as client:
        yield client


def commit(offset: int, strangers: int = STRANGERS) -> OffsetCommitRequest:
    """Of orders-0, before many others."""
    names = ["orders", *(f"stranger-{number}" for number in range(strangers))]
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=name, partitions=[part]) for name in names]
    return OffsetCommitRequest(group_id="g", topics=topics)


def errors(answer: object) -> dict[str, int]:
    """By topic."""
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}  # type: ignore[attr-defined]


async def committed(server: Server) -> list[int]:
    """What the group has, of any topic."""
    async with Client(server) as other:
        fetched = await other.call(OffsetFetchRequest(group_id="g", topics=None), 2)
    return [part.committed_offset for topic in fetched.topics for part in topic.partitions]


async def in_line(server: Server) -> None:
    """Waits until a request was answered in part."""
    while not len(server.run_queue):  # noqa: ASYNC110 - the queue has no event
        await asyncio.sleep(0)


async def test_answers_keep_their_order(server: Server, client: Client) -> None:
    small, large = commit(1, strangers=0), commit(2)
    groups = DescribeGroupsRequest(groups=["g"] + [f"none-{number}" for number in range(5_000)])
    keys = FindCoordinatorRequest(coordinator_keys=[f"key-{number}" for number in range(5_000)])
    frames = [client.frame(small, 8), client.frame(large, 8), client.frame(ListGroupsRequest(), 4)]
    frames += [client.frame(groups, 5), client.frame(keys, 6), client.frame(small, 8)]
    client.writer.write(b"".join(frames))
    assert errors(await client.receive()) == {"orders": ErrorCode.NONE}
    found_errors = errors(await client.receive())
    assert found_errors.pop("orders") == ErrorCode.NONE
    assert len(found_errors) == STRANGERS
    assert set(found_errors.values()) == {UNKNOWN}
    assert [group.group_id for group in (await client.receive()).groups] == ["g"]
    assert [group.group_id for group in (await client.receive()).groups] == groups.groups
    assert [found.key for found in (await client.receive()).coordinators] == keys.coordinator_keys
    assert errors(await client.receive()) == {"orders": ErrorCode.NONE}
    assert await committed(server) == [1]


async def test_one_topic_of_many_partitions_is_answered_once(client: Client) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(5_000)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=parts)]
    answer = await client.call(OffsetCommitRequest(group_id="g", topics=topics), 8)
    (topic,) = answer.topics
    found_errors = {part.partition_index: part.error_code for part in topic.partitions}
    assert found_errors == {number: ErrorCode.NONE if number < 3 else UNKNOWN for number in range(5_000)}
    gone = [OffsetDeleteRequestPartition(partition_index=number) for number in range(5_000)]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="orders", partitions=gone)]
    )
    (deleted,) = (await client.call(request, 0)).topics
    assert {part.partition_index: part.error_code for part in deleted.partitions} == found_errors


async def test_a_topic_that_is_deleted_meanwhile_is_not_committed(server: Server, client: Client) -> None:
    client.send(commit(5), 8)
    await in_line(server)
    catalogue = server.data_plane.catalogue
    topic = catalogue.find_topic("orders")
    assert topic is not None
    run_in_one_step(catalogue.delete_topics(IN_ONE_STEP, [topic]))
    assert errors(await client.receive())["orders"] == UNKNOWN
    assert await committed(server) == []


async def test_a_group_that_is_given_away_meanwhile_commits_nothing(server: Server, client: Client) -> None:
    partition = server.runtime.find_partition("g")
    client.send(commit(5), 8)
    await in_line(server)
    server.runtime.lifecycle.release_partition(partition, 1, "somebody else has it")
    found_errors = errors(await client.receive())
    assert found_errors.pop("orders") == ErrorCode.NOT_COORDINATOR
    assert set(found_errors.values()) == {UNKNOWN}


async def test_a_connection_that_is_cut_meanwhile_commits_nothing(server: Server, client: Client) -> None:
    client.send(commit(5), 8)
    await in_line(server)
    (connection,) = server.connections.open
    connection.abort()
    await asyncio.wait_for(server.connections.emptied.wait(), 60)
    assert len(server.run_queue) == 0
    assert await committed(server) == []
    assert server.connections.memory.reserved_bytes == 0


async def test_the_bytes_of_a_request_are_given_back_when_it_is_decoded() -> None:
    async with (
        serving(None, {"queued.max.request.bytes": "700000", "socket.request.max.bytes": "700000"}) as server,
        Client(server) as client,
    ):
        for offset in (1, 2, 3):
            assert errors(await client.call(commit(offset), 8))["orders"] == ErrorCode.NONE
        assert server.connections.memory.reserved_bytes == 0


async def test_what_was_sent_before_too_large_a_request_is_answered(server: Server, client: Client) -> None:
    most = APIS[ApiKey.FIND_COORDINATOR].max_elements
    client.send(ListGroupsRequest(), 4)
    client.send(FindCoordinatorRequest(coordinator_keys=["k"] * (most + 1)), 6)
    assert (await client.receive()).error_code == ErrorCode.NONE
    assert await client.closed()


@pytest.mark.parametrize("acks", [0, 1])
async def test_a_produce_of_many_partitions(client: Client, acks: int) -> None:
    parts = [PartitionProduceData(index=number, records=b"") for number in range(5_000)]
    topics = [TopicProduceData(name="orders", partition_data=parts)]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
    if acks:
        (topic,) = (await client.call(request, 9)).responses
        found_errors = [part.error_code for part in topic.partition_responses]
        assert found_errors == [ErrorCode.INVALID_RECORD] * 3 + [UNKNOWN] * 4_997
    else:
        client.send(request, 9)
        assert await client.closed()
