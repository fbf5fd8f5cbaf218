"""Responses to clients with an old or a future leader epoch after a move."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.topic_partition import TopicPartition
from tests.cluster.brokers import Cluster, three_brokers
from tests.topics.broker import batch

PARTITION = TopicPartition("orders", 0)
FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
NONE, ELSEWHERE = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
NOT_GIVEN = -1


async def produce(cluster: Cluster) -> int:
    """Writes a record; its offset."""
    data = PartitionProduceData(index=0, records=batch(1, time_ms=clock.wall_ms()))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )
    answer = await cluster.clients[cluster.owner(PARTITION)].call(request, 9)
    [part] = answer.responses[0].partition_responses
    assert part.error_code == NONE
    offset: int = part.base_offset
    return offset


async def told_epoch(cluster: Cluster, at: int) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    answer = await cluster.clients[at].call(request, 9)
    [epoch] = [part.leader_epoch for part in answer.topics[0].partitions if part.partition_index == 0]
    return int(epoch)


async def fetch(cluster: Cluster, at: int, epoch: int) -> int:
    part = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic="orders", partitions=[part])]
    answer = await cluster.clients[at].call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11)
    return int(answer.responses[0].partitions[0].error_code)


async def list_offsets(cluster: Cluster, at: int, epoch: int) -> int:
    part = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    topics = [ListOffsetsTopic(name="orders", partitions=[part])]
    answer = await cluster.clients[at].call(ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    return int(answer.topics[0].partitions[0].error_code)


async def end_of_epoch(cluster: Cluster, at: int, epoch: int, asked: int = 0) -> tuple[int, int]:
    """Return the error and the end offset of the epoch `asked`."""
    part = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=asked)
    topics = [OffsetForLeaderTopic(topic="orders", partitions=[part])]
    answer = await cluster.clients[at].call(OffsetForLeaderEpochRequest(topics=topics), 3)
    found = answer.topics[0].partitions[0]
    return int(found.error_code), int(found.end_offset)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with three_brokers(tmp_path) as cluster:
        yield cluster


async def test_every_request_that_names_an_epoch_is_held_to_the_one_of_now(cluster: Cluster) -> None:
    await produce(cluster)
    before = cluster.owner(PARTITION)
    old = await told_epoch(cluster, before)
    to = before % 3 + 1
    cluster.server.membership.move_partition(PARTITION, to)
    new = await told_epoch(cluster, before)
    assert new == await told_epoch(cluster, to) == old + 1
    expected = {old: FENCED, new: NONE, new + 1: UNKNOWN, NOT_GIVEN: NONE}
    for epoch, error in expected.items():
        assert await fetch(cluster, to, epoch) == error
        assert await list_offsets(cluster, to, epoch) == error
        assert (await end_of_epoch(cluster, to, epoch))[0] == error
        assert await fetch(cluster, before, epoch) == ELSEWHERE
        assert await list_offsets(cluster, before, epoch) == ELSEWHERE


async def test_each_owner_writes_in_an_epoch_of_its_own_and_all_know_where_it_ended(cluster: Cluster) -> None:
    ends = []
    for _ in range(4):
        ends.append(await produce(cluster) + 1)
        cluster.server.membership.move_partition(PARTITION, cluster.owner(PARTITION) % 3 + 1)
    at = cluster.owner(PARTITION)
    assert [(await end_of_epoch(cluster, at, NOT_GIVEN, asked))[1] for asked in range(4)] == ends


async def test_an_epoch_in_which_nothing_was_written_goes_on_at_the_next_leader(cluster: Cluster) -> None:
    before = cluster.owner(PARTITION)
    epoch = await told_epoch(cluster, before)
    cluster.server.membership.move_partition(PARTITION, before % 3 + 1)
    assert await told_epoch(cluster, before) == await told_epoch(cluster, before % 3 + 1) == epoch


async def test_a_move_back_does_not_bring_back_the_old_epoch(cluster: Cluster) -> None:
    await produce(cluster)
    first = cluster.owner(PARTITION)
    old = await told_epoch(cluster, first)
    cluster.server.membership.move_partition(PARTITION, first % 3 + 1)
    await produce(cluster)
    cluster.server.membership.move_partition(PARTITION, first)
    assert await told_epoch(cluster, first) == old + 2
    assert await fetch(cluster, first, old) == FENCED
    assert await fetch(cluster, first, old + 1) == FENCED
    assert await fetch(cluster, first, old + 2) == NONE


async def test_who_asks_the_wrong_broker_is_told_the_leader_and_its_address(cluster: Cluster) -> None:
    """By the versions of Produce and Fetch that have room for it."""
    await produce(cluster)
    before = cluster.owner(PARTITION)
    to = before % 3 + 1
    cluster.server.membership.move_partition(PARTITION, to)
    data = PartitionProduceData(index=0, records=batch(1, time_ms=clock.wall_ms()))
    topic = TopicProduceData(name="orders", partition_data=[data])
    producing = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    answer = await cluster.clients[before].call(producing, 10)
    part = answer.responses[0].partition_responses[0]
    assert (part.error_code, part.current_leader.leader_id) == (ELSEWHERE, to)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(to, cluster.port(to))]
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    hosted = cluster.server.data_plane.catalogue.find_topic("orders")
    assert hosted is not None
    topics = [FetchTopic(topic_id=hosted.topic_id, partitions=[part])]
    fetching = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
    answer = await cluster.clients[before].call(fetching, 16)
    found = answer.responses[0].partitions[0]
    assert (found.error_code, found.current_leader.leader_id) == (ELSEWHERE, to)
    assert found.current_leader.leader_epoch == await told_epoch(cluster, to)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(to, cluster.port(to))]
    cluster.server.membership.stop_broker(to)
    answer = await cluster.clients[before].call(fetching, 16)
    assert answer.responses[0].partitions[0].current_leader.leader_id == -1
    assert answer.node_endpoints == []
