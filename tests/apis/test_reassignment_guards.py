"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders: rights on the cluster."""

import pytest

from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.apis.authorized_clients import CLUSTER, TOPIC, admin_and_alice, allow

NONE, DENIED = ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_reassignments_and_elections_are_for_who_may_alter_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reassigning = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
            )
        ]
    )
    electing = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0])])
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        for operation, kind in ((AclOperation.DESCRIBE, CLUSTER), (AclOperation.ALTER, TOPIC)):
            await allow(server, "alice", operation, kind, *(["orders"] if kind is TOPIC else []))
            answer = await alice.call(reassigning, 1)
            assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (DENIED, DENIED)
            answer = await alice.call(electing, 2)
            [result] = answer.replica_election_results[0].partition_result
            assert (answer.error_code, result.error_code) == (DENIED, DENIED)
        await allow(server, "alice", AclOperation.ALTER, CLUSTER)
        answer = await alice.call(reassigning, 1)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (NONE, NONE)
        answer = await alice.call(electing, 2)
        [result] = answer.replica_election_results[0].partition_result
        assert (answer.error_code, result.error_code) == (NONE, ErrorCode.ELECTION_NOT_NEEDED)


async def test_reassignments_are_shown_to_who_may_describe_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing = ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0])]
    )
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        answer = await alice.call(listing, 0)
        assert (answer.error_code, answer.topics[0].partitions[0].replicas) == (DENIED, [])
        await allow(server, "alice", AclOperation.DESCRIBE, CLUSTER)
        answer = await alice.call(listing, 0)
        assert (answer.error_code, answer.topics) == (NONE, [])
