"""Replica reassignments, the leader changes that follow, and elections, by Kafka's own APIs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest
from storage.topic_partition import TopicPartition
from tests.broker.harness import heartbeat_request, join_alone
from tests.cluster.brokers import NODE_IDS, Cluster, three_brokers

RECORDS = TopicPartition("orders", 0)
PREFERRED, UNCLEAN = 0, 1
NONE = ErrorCode.NONE


async def reassign(
    cluster: Cluster,
    partition: TopicPartition,
    replicas: Sequence[int] | None,
    *,
    changes_count: bool = True,
    at: int = 1,
) -> ErrorCode:
    """The error of the partition."""
    asked = ReassignablePartition(
        partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
    )
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=partition.topic, partitions=[asked])],
        allow_replication_factor_change=changes_count,
    )
    answer = await cluster.clients[at].call(request, 1)
    assert answer.error_code == NONE
    [result] = answer.responses[0].partitions
    assert (result.error_code == NONE) == (result.error_message is None) or replicas is None
    return ErrorCode(result.error_code)


async def elect(cluster: Cluster, partition: TopicPartition, kind: int = PREFERRED, at: int = 1) -> ErrorCode:
    """The error of the partition."""
    asked = TopicPartitions(topic=partition.topic, partitions=[partition.partition])
    answer = await cluster.clients[at].call(
        ElectLeadersRequest(election_type=kind, topic_partitions=[asked]), 2
    )
    [result] = answer.replica_election_results[0].partition_result
    return ErrorCode(result.error_code)


async def in_progress(
    cluster: Cluster, at: int = 1
) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
    """Return the replicas, adding replicas and removing replicas of each partition in reassignment."""
    answer = await cluster.clients[at].call(ListPartitionReassignmentsRequest(topics=None), 0)
    return {
        TopicPartition(topic.name, part.partition_index): (
            part.replicas,
            part.adding_replicas,
            part.removing_replicas,
        )
        for topic in answer.topics
        for part in topic.partitions
    }


async def described(
    cluster: Cluster, partition: TopicPartition, at: int = 1
) -> tuple[int, list[int], list[int]]:
    """Leader, replicas and those in sync, as Metadata has them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=partition.topic)])
    answer = await cluster.clients[at].call(request, 9)
    [part] = [each for each in answer.topics[0].partitions if each.partition_index == partition.partition]
    return part.leader_id, part.replica_nodes, sorted(part.isr_nodes)


def after(cluster: Cluster, partition: TopicPartition, steps: int = 1) -> int:
    """A broker that does not own a partition."""
    return (cluster.owner(partition) + steps - 1) % 3 + 1


async def test_a_reassigned_coordinator_goes_on_at_the_other_broker(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        partition = cluster.partition("billing")
        before, to = cluster.owner(partition), after(cluster, partition)
        member, generation = await join_alone(cluster.clients[before], "billing")
        assert await reassign(cluster, partition, [to], at=after(cluster, partition, 2)) == NONE
        beat = heartbeat_request("billing", member, generation)
        assert (await cluster.clients[before].call(beat, 3)).error_code == ErrorCode.NOT_COORDINATOR
        assert await cluster.found("billing", before) == (to, cluster.port(to))
        await cluster.until(to, OffsetFetchRequest(group_id="billing", topics=[]), 5)
        assert (await cluster.clients[to].call(beat, 3)).error_code == NONE
        assert await described(cluster, partition) == (to, [to], [to])
        assert await in_progress(cluster) == {}


async def test_a_partition_of_records_is_led_by_its_new_replica(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        to = after(cluster, RECORDS)
        assert await reassign(cluster, RECORDS, [to]) == NONE
        for node_id in NODE_IDS:
            assert await described(cluster, RECORDS, node_id) == (to, [to], [to])


async def test_an_owner_that_stays_a_replica_stays_the_owner_until_another_is_elected(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        partition = cluster.partition("billing")
        owner = cluster.owner(partition)
        preferred = after(cluster, partition)
        replicas = [preferred, owner, *({1, 2, 3} - {preferred, owner})]
        assert await elect(cluster, partition) == ErrorCode.ELECTION_NOT_NEEDED
        assert await reassign(cluster, partition, replicas) == NONE
        assert await described(cluster, partition) == (owner, replicas, [1, 2, 3])
        assert await elect(cluster, partition, UNCLEAN) == ErrorCode.ELECTION_NOT_NEEDED
        assert await elect(cluster, partition) == NONE
        assert cluster.owner(partition) == preferred
        assert (await described(cluster, partition))[1:] == (replicas, [1, 2, 3])
        assert await elect(cluster, partition) == ErrorCode.ELECTION_NOT_NEEDED


async def test_an_election_everywhere_brings_back_what_was_moved(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        await cluster.found("group", at=1)  # from then on all lists have `__consumer_offsets`
        partitions = cluster.list_owned(1)
        moved = [part for part in partitions if part.topic == "__consumer_offsets"]
        for part in partitions:
            cluster.server.membership.move_partition(part, 2)
        answer = await cluster.clients[3].call(ElectLeadersRequest(topic_partitions=None), 2)
        told = {
            TopicPartition(topic.topic, part.partition_id): part.error_code
            for topic in answer.replica_election_results
            for part in topic.partition_result
        }
        assert told == dict.fromkeys(moved, NONE)
        assert {cluster.owner(part) for part in moved} == {1}


async def test_what_has_no_leader_cannot_have_one_elected(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        stopped = cluster.owner(RECORDS)
        at = after(cluster, RECORDS)
        coordinated = cluster.partition("billing")
        assert await reassign(cluster, coordinated, [stopped, at], at=at) == NONE
        cluster.server.membership.stop_broker(stopped)
        assert await elect(cluster, RECORDS, at=at) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await elect(cluster, RECORDS, UNCLEAN, at) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert await elect(cluster, coordinated, at=at) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await elect(cluster, coordinated, UNCLEAN, at) == ErrorCode.ELECTION_NOT_NEEDED
        assert cluster.owner(coordinated) == at


async def test_a_reassignment_waits_for_a_broker_that_is_stopped(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        owner = cluster.owner(RECORDS)
        to = after(cluster, RECORDS)
        cluster.server.membership.stop_broker(to)
        assert await reassign(cluster, RECORDS, [to], at=owner) == NONE
        assert await in_progress(cluster, owner) == {RECORDS: ([to, owner], [to], [owner])}
        assert await described(cluster, RECORDS, owner) == (owner, [to, owner], [owner])
        cluster.server.membership.start_broker(to)
        assert await in_progress(cluster, owner) == {}
        assert await described(cluster, RECORDS, owner) == (to, [to], [to])


async def test_what_is_in_progress_can_be_cancelled_once(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        owner = cluster.owner(RECORDS)
        to = after(cluster, RECORDS)
        nothing = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert await reassign(cluster, RECORDS, None, at=owner) == nothing
        cluster.server.membership.stop_broker(to)
        assert await reassign(cluster, RECORDS, [to], at=owner) == NONE
        assert await reassign(cluster, RECORDS, None, at=owner) == NONE
        assert await reassign(cluster, RECORDS, None, at=owner) == nothing
        cluster.server.membership.start_broker(to)
        assert await described(cluster, RECORDS, owner) == (owner, [owner], [owner])


async def test_records_of_a_stopped_broker_go_to_one_that_lives(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        stopped, to = cluster.owner(RECORDS), after(cluster, RECORDS)
        cluster.server.membership.stop_broker(stopped)
        assert await described(cluster, RECORDS, to) == (-1, [stopped], [stopped])
        assert await reassign(cluster, RECORDS, [to], at=to) == NONE
        assert await described(cluster, RECORDS, to) == (to, [to], [to])


@pytest.mark.parametrize(
    ("replicas", "changes_count", "error"),
    [
        ([], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([9], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_replicas_that_cannot_be_are_refused(
    tmp_path: Path, replicas: list[int], changes_count: bool, error: ErrorCode
) -> None:
    async with three_brokers(tmp_path) as cluster:
        before = await described(cluster, RECORDS)
        assert await reassign(cluster, RECORDS, replicas, changes_count=changes_count) == error
        assert await described(cluster, RECORDS) == before


async def test_as_many_replicas_as_before_where_that_is_asked_for(tmp_path: Path) -> None:
    async with three_brokers(tmp_path) as cluster:
        partition = cluster.partition("billing")
        before = await described(cluster, partition)
        fewer, turned = before[1][:1], before[1][::-1]
        error = await reassign(cluster, partition, fewer, changes_count=False)
        assert error == ErrorCode.INVALID_REPLICATION_FACTOR
        assert await described(cluster, partition) == before
        assert await reassign(cluster, partition, turned, changes_count=False) == NONE
        assert (await described(cluster, partition))[1] == turned


@pytest.mark.parametrize("partition", [TopicPartition("orders", 6), TopicPartition("nowhere", 0)])
async def test_what_is_not_there_is_neither_reassigned_nor_elected(
    tmp_path: Path, partition: TopicPartition
) -> None:
    async with three_brokers(tmp_path) as cluster:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await reassign(cluster, partition, [1]) == unknown
        assert await reassign(cluster, partition, None) == unknown
        assert await elect(cluster, partition) == unknown
