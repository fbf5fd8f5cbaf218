import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator.broker.group_event_log import EventRank
from coordinator.cluster.partition_ownership import ClusterOperationError
from coordinator.group.group_event_types import RebalanceStarted
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving
from tests.cluster.brokers import NODE_IDS, Cluster, eventually, three_brokers


def commit(group: str, member: str, generation: int, offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])],
    )


async def committed(cluster: Cluster, group: str, at: int) -> int:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    answer = await cluster.until(at, OffsetFetchRequest(group_id=group, topics=[topic]), 5)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


@asynccontextmanager
async def with_group(data_dir: Path) -> AsyncIterator[tuple[Cluster, TopicPartition, str, int]]:
    """Three brokers, and a group of one member; the count of its rebalances stays 0 to the end."""
    async with three_brokers(data_dir) as cluster:
        partition = cluster.partition("billing")
        member, generation = await join_alone(cluster.clients[cluster.owner(partition)], "billing")
        rebalances: list[object] = []
        cluster.server.group_events.subscribe(
            EventRank.COMMANDS,
            lambda _, event, __, ___: (
                rebalances.append(event) if isinstance(event, RebalanceStarted) else None
            ),
        )
        yield cluster, partition, member, generation
        assert rebalances == []


async def test_a_member_goes_on_at_the_new_coordinator(tmp_path: Path) -> None:
    async with with_group(tmp_path) as (cluster, partition, member, generation):
        for round_number in range(6):
            before = cluster.owner(partition)
            to = before % 3 + 1
            assert (
                await cluster.clients[before].call(commit("billing", member, generation, round_number), 6)
            ).topics[0].partitions[0].error_code == 0
            assert cluster.server.membership.move_partition(partition, to)
            beat = heartbeat_request("billing", member, generation)
            assert (await cluster.clients[before].call(beat, 3)).error_code == ErrorCode.NOT_COORDINATOR
            assert await cluster.found("billing", before) == (to, cluster.port(to))
            assert (await cluster.until(to, beat, 3)).error_code == 0
            assert await committed(cluster, "billing", to) == round_number


async def test_a_heartbeat_that_comes_again_just_so_is_refused_after_a_move(tmp_path: Path) -> None:
    async with with_group(tmp_path) as (cluster, partition, member, generation):
        before = cluster.owner(partition)
        beat = heartbeat_request("billing", member, generation)
        for _ in range(3):
            assert (await cluster.clients[before].call(beat, 3)).error_code == 0
        to = before % 3 + 1
        cluster.server.membership.move_partition(partition, to)
        await cluster.until(to, beat, 3)
        assert (await cluster.clients[before].call(beat, 3)).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_held_partition_says_that_it_loads(tmp_path: Path) -> None:
    async with with_group(tmp_path) as (cluster, partition, member, generation):
        to = cluster.owner(partition) % 3 + 1
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        cluster.server.membership.move_partition(partition, to, hold_loading_s=0.3)
        beat = heartbeat_request("billing", member, generation)
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        fetch = OffsetFetchRequest(group_id="billing", topics=[topic])
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await cluster.clients[to].call(fetch, 5)).error_code == loading
        await cluster.until(to, fetch, 5)
        assert loop.time() - started_s >= 0.3
        assert (await cluster.clients[to].call(beat, 3)).error_code == 0


async def test_a_parked_join_is_told_that_the_coordinator_is_another(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        partition = cluster.partition("billing")
        owner = cluster.owner(partition)
        await join_alone(cluster.clients[owner], "billing")
        async with Client(port=cluster.port(owner)) as second:
            second.send(join_request("billing"), 3)
            machine = cluster.server.runtime.partitions[partition.partition]
            await eventually(lambda: bool(machine.waiting))
            cluster.server.membership.move_partition(partition, owner % 3 + 1)
            assert (await second.receive()).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_stopped_broker_is_gone_and_its_groups_are_not(tmp_path: Path) -> None:
    async with with_group(tmp_path) as (cluster, partition, member, generation):
        stopped = cluster.owner(partition)
        port = cluster.port(stopped)
        orders = [TopicPartition("orders", number) for number in range(6)]
        led = {part.partition for part in orders if cluster.owner(part) == stopped}
        cluster.server.membership.stop_broker(stopped)
        assert await cluster.clients[stopped].closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        to = cluster.owner(partition)
        assert to != stopped
        await cluster.until(to, heartbeat_request("billing", member, generation), 3)
        metadata = await cluster.clients[to].call(
            MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9
        )
        assert [each.node_id for each in metadata.brokers] == [each for each in NODE_IDS if each != stopped]
        without = [part for part in metadata.topics[0].partitions if part.leader_id == -1]
        assert {part.partition_index for part in without} == led
        assert {part.error_code for part in without} == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert all(part.offline_replicas == [stopped] for part in without)
        cluster.server.membership.start_broker(stopped)
        async with Client(port=port) as client:
            metadata = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
            assert len(metadata.brokers) == 3
            assert all(part.leader_id != -1 for part in metadata.topics[0].partitions)


async def test_a_parked_fetch_is_told_of_the_new_leader(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        part = TopicPartition("orders", 0)
        leader = cluster.owner(part)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=30_000, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[wanted])]
        )
        cluster.clients[leader].send(request, 11)
        await eventually(lambda: len(cluster.server.data_plane.fetch_purgatory) > 0)
        cluster.server.membership.move_partition(part, leader % 3 + 1)
        answer = await cluster.clients[leader].receive()
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_transactional_id_keeps_its_epoch_over_a_move(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        found = await cluster.clients[1].call(FindCoordinatorRequest(key="pay", key_type=1), 3)
        request = InitProducerIdRequest(transactional_id="pay", transaction_timeout_ms=60_000)
        first = await cluster.until(found.node_id, request, 4)
        parts = cluster.server.transactions.coordinator
        assert parts is not None
        to = found.node_id % 3 + 1
        cluster.server.membership.move_partition(parts.runtime.find_partition("pay").name, to)
        assert (await cluster.clients[found.node_id].call(request, 4)).error_code == ErrorCode.NOT_COORDINATOR
        second = await cluster.until(to, request, 4)
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_one_broker_can_neither_stop_nor_give_anything_away() -> None:
    async with serving() as server:
        for act in (
            lambda: server.membership.stop_broker(1),
            lambda: server.membership.start_broker(1),
            lambda: server.membership.move_partition(TopicPartition("orders", 0), 1),
        ):
            with pytest.raises(ClusterOperationError, match="one broker"):
                act()
