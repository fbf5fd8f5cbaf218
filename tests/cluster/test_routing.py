from pathlib import Path
from typing import Any

import pytest

from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.topic_partition import TopicPartition
from tests.broker.harness import heartbeat_request, join_alone, join_request, sync_request
from tests.cluster.brokers import NODE_IDS, Cluster, three_brokers
from tests.topics.broker import batch

WRONG_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_every_broker_names_all_of_them_and_the_leaders(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        everybody = {(node_id, cluster.port(node_id)) for node_id in NODE_IDS}
        leaders = {number: cluster.owner(TopicPartition("orders", number)) for number in range(6)}
        assert set(leaders.values()) == set(NODE_IDS)
        for client in cluster.clients.values():
            metadata = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
            assert {(each.node_id, each.port) for each in metadata.brokers} == everybody
            [topic] = metadata.topics
            assert {part.partition_index: part.leader_id for part in topic.partitions} == leaders
            assert all(part.replica_nodes == part.isr_nodes == [part.leader_id] for part in topic.partitions)
            described = await client.call(
                DescribeClusterRequest(include_cluster_authorized_operations=False), 0
            )
            assert {(each.broker_id, each.port) for each in described.brokers} == everybody
            page = await client.call(
                DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name="orders")], response_partition_limit=100
                ),
                0,
            )
            [topic] = page.topics
            assert {part.partition_index: part.leader_id for part in topic.partitions} == leaders


async def test_every_broker_finds_the_same_coordinator(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        named = set()
        for group in ("billing", "audit", "search", "mail", "a", "b", "c", "d"):
            owner = cluster.owner(cluster.partition(group))
            named.add(owner)
            for node_id in NODE_IDS:
                assert await cluster.found(group, node_id) == (owner, cluster.port(owner))
        assert len(named) > 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (join_request("billing"), 3),
        (sync_request("billing", "m", 1), 3),
        (heartbeat_request("billing", "m", 1), 3),
        (LeaveGroupRequest(group_id="billing", members=[MemberIdentity(member_id="m")]), 3),
        (ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=1), 0),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else f"v{value}",
)
async def test_another_broker_is_not_the_coordinator(tmp_path: Path, request_: Any, version: int) -> None:
    async with three_brokers(tmp_path) as cluster:
        for node_id in cluster.others(cluster.partition("billing")):
            answer = await cluster.clients[node_id].call(request_, version)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_groups_are_described_and_listed_by_their_coordinator_alone(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        partition = cluster.partition("billing")
        await join_alone(cluster.clients[cluster.owner(partition)], "billing")
        for node_id in NODE_IDS:
            is_owner = node_id == cluster.owner(partition)
            expected = ErrorCode.NONE if is_owner else ErrorCode.NOT_COORDINATOR
            client = cluster.clients[node_id]
            described = await client.call(DescribeGroupsRequest(groups=["billing"]), 4)
            assert described.groups[0].error_code == expected
            fetched = await client.call(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="billing", topics=None)]), 8
            )
            assert fetched.groups[0].error_code == expected
            listed = await client.call(ListGroupsRequest(), 4)
            assert [group.group_id for group in listed.groups] == (["billing"] if is_owner else [])


async def test_transactions_are_coordinated_by_the_owner_alone(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        client = cluster.clients[1]
        from protocol.messages.find_coordinator import FindCoordinatorRequest

        found = await client.call(FindCoordinatorRequest(key="pay", key_type=1), 3)
        assert found.error_code == 0
        request = InitProducerIdRequest(transactional_id="pay", transaction_timeout_ms=60_000)
        assert (await cluster.until(found.node_id, request, 4)).producer_id >= 0
        for node_id in set(NODE_IDS) - {found.node_id}:
            answer = await cluster.clients[node_id].call(request, 4)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR


def produce(number: int) -> ProduceRequest:
    data = TopicProduceData(
        name="orders",
        partition_data=[PartitionProduceData(index=number, records=batch(1, time_ms=clock.wall_ms()))],
    )
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])


async def test_records_are_the_leaders(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        leader = cluster.owner(TopicPartition("orders", 0))
        for node_id in (*cluster.others(TopicPartition("orders", 0)), leader):
            expected = ErrorCode.NONE if node_id == leader else WRONG_LEADER
            client = cluster.clients[node_id]
            produced = await client.call(produce(0), 9)
            assert produced.responses[0].partition_responses[0].error_code == expected
            part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            fetched = await client.call(
                FetchRequest(
                    max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[part])]
                ),
                11,
            )
            assert fetched.responses[0].partitions[0].error_code == expected
            latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
            listed = await client.call(
                ListOffsetsRequest(
                    replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[latest])]
                ),
                5,
            )
            assert listed.topics[0].partitions[0].error_code == expected
            epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
            ended = await client.call(
                OffsetForLeaderEpochRequest(
                    topics=[OffsetForLeaderTopic(topic="orders", partitions=[epoch])]
                ),
                3,
            )
            assert ended.topics[0].partitions[0].error_code == expected
            before = DeleteRecordsPartition(partition_index=0, offset=0)
            deleted = await client.call(
                DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name="orders", partitions=[before])], timeout_ms=1000
                ),
                2,
            )
            assert deleted.topics[0].partitions[0].error_code == expected


async def test_log_directories_are_each_brokers_own(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        await cluster.found("group", at=1)  # from then on all lists have `__consumer_offsets`
        for node_id, client in cluster.clients.items():
            answer = await client.call(DescribeLogDirsRequest(topics=None), 2)
            found = {
                TopicPartition(topic.name, part.partition_index)
                for topic in answer.results[0].topics
                for part in topic.partitions
            }
            assert found == set(cluster.list_owned(node_id))


async def created(cluster: Cluster, topic: CreatableTopic) -> CreatableTopicResult:
    answer = await cluster.clients[1].call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    result: CreatableTopicResult = answer.topics[0]
    return result


async def test_a_topic_is_led_by_whom_it_was_assigned_to(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        assigned = [3, 3, 1]
        topic = CreatableTopic(
            name="placed",
            num_partitions=-1,
            replication_factor=-1,
            configs=[],
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
                for number, node_id in enumerate(assigned)
            ],
        )
        assert (await created(cluster, topic)).error_code == ErrorCode.NONE
        assert [cluster.owner(TopicPartition("placed", number)) for number in range(3)] == assigned


@pytest.mark.parametrize(
    ("broker_ids", "factor", "error"),
    [
        ([9], -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], 3, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
async def test_records_have_one_replica(
    tmp_path: Path, broker_ids: list[int], factor: int, error: ErrorCode
) -> None:
    async with three_brokers(tmp_path) as cluster:
        assignments = (
            [CreatableReplicaAssignment(partition_index=0, broker_ids=broker_ids)] if broker_ids else []
        )
        topic = CreatableTopic(
            name="placed",
            num_partitions=-1 if broker_ids else 1,
            replication_factor=factor,
            configs=[],
            assignments=assignments,
        )
        assert (await created(cluster, topic)).error_code == error
        assert cluster.server.data_plane.catalogue.find_topic("placed") is None
