"""What people ask of a cluster that there is for several brokers in one process."""

from pathlib import Path

import msgspec
import pytest

from coordinator.control.control import Control
from coordinator.control.faults.rule import FaultRule
from coordinator.control.problem import Problem, ProblemKind
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from storage.topic_partition import TopicPartition
from tests.cluster.daemons import Daemon, daemons, eventually

OFFSETS = "__consumer_offsets"
RULE = {"on": {"event": "GroupStabilized"}, "do": {"failover": True}}


async def reassign(daemon: Daemon, topic: str, number: int, replicas: list[int] | None) -> int:
    part = ReassignablePartition(partition_index=number, replicas=replicas)
    wanted = ReassignableTopic(name=topic, partitions=[part])
    answer = await daemon.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[wanted]), 1)
    assert answer.error_code == ErrorCode.NONE
    code: int = answer.responses[0].partitions[0].error_code
    return code


async def test_a_coordinator_is_reassigned_and_records_are_not(tmp_path: Path) -> None:
    async with daemons(tmp_path, 3) as cluster:
        owner = await cluster.owner()
        name = owner.server.runtime.partition_of("g").name
        asked = cluster.by_id[owner.node_id % 3 + 1]
        first, *others = sorted({1, 2, 3} - {owner.node_id})
        assert (
            await reassign(asked, OFFSETS, name.partition, [first, owner.node_id, *others]) == ErrorCode.NONE
        )
        await eventually(lambda: cluster.by_id[first].coordinates("g"))
        await eventually(lambda: asked.server.brokers.ownership.owner(name) == first)
        assert await asked.coordinator() == first
        leader = asked.server.brokers.ownership.owner(TopicPartition("orders", 0))
        assert leader is not None
        elsewhere = leader % 3 + 1
        refused = await reassign(asked, "orders", 0, [elsewhere])
        assert refused == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(asked, "orders", 0, [leader]) == ErrorCode.NONE
        cancelled = await reassign(asked, "orders", 0, None)
        assert cancelled == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


async def test_every_owner_is_the_preferred_one(tmp_path: Path) -> None:
    async with daemons(tmp_path, 2) as cluster:
        asked = await cluster.owner()
        name = asked.server.runtime.partition_of("g").name
        await eventually(lambda: asked.server.brokers.ownership.owner(name) == asked.node_id)
        wanted = [TopicPartitions(topic=OFFSETS, partitions=[name.partition])]
        answer = await asked.ask(
            ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000), 2
        )
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED


async def test_a_failover_within_one_process_is_refused(tmp_path: Path) -> None:
    async with daemons(tmp_path, 1) as cluster:
        owner = await cluster.owner()
        control = Control(owner.server)
        number = owner.server.runtime.partition_of("g").number
        with pytest.raises(Problem) as refused:
            await control.failover.partition(number, 0, 0)
        assert refused.value.kind is ProblemKind.NOT_POSSIBLE
        with pytest.raises(Problem) as fault:
            control.faults.make(msgspec.convert(RULE, FaultRule))
        assert fault.value.kind is ProblemKind.NOT_POSSIBLE
        assert owner.coordinates("g")
        control.close()
        await control.namespaces.close()
