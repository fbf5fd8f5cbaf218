"""Admin operations of in-process brokers, on a cluster of daemons."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    KeyEntry,
    Put,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.cluster.partition_appends import PartitionId
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.faults.fault_rule import FaultRule
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from storage.topic_partition import TopicPartition
from tests.broker.harness import heartbeat_request, join_alone, join_request
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, SESSION_MS, Daemon, Daemons, daemons, eventually
from tests.cluster.model_store import ModelConnection

KEYS = ClusterKeys(CLUSTER_ID)
OFFSETS = "__consumer_offsets"
PINNED = PartitionId(OFFSETS, 0)
PIN = KEYS.pin(*PINNED)
ELSEWHERE, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def reassign(daemon: Daemon, topic: str, number: int, replicas: list[int] | None) -> int:
    part = ReassignablePartition(partition_index=number, replicas=replicas)
    wanted = ReassignableTopic(name=topic, partitions=[part])
    answer = await daemon.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[wanted]), 1)
    assert answer.error_code == ErrorCode.NONE
    code: int = answer.responses[0].partitions[0].error_code
    return code


async def test_a_coordinator_is_reassigned_and_records_are_not() -> None:
    async with daemons(None, 3) as cluster:
        owner = await cluster.owner()
        name = owner.server.runtime.find_partition("g").name
        asked = cluster.by_id[owner.node_id % 3 + 1]
        first, *others = sorted({1, 2, 3} - {owner.node_id})
        assert (
            await reassign(asked, OFFSETS, name.partition, [first, owner.node_id, *others]) == ErrorCode.NONE
        )
        await eventually(lambda: cluster.by_id[first].coordinates("g"))
        await eventually(lambda: asked.server.membership.ownership.find_owner(name) == first)
        assert await asked.coordinator() == first
        leader = asked.server.membership.ownership.find_owner(TopicPartition("orders", 0))
        assert leader is not None
        elsewhere = leader % 3 + 1
        refused = await reassign(asked, "orders", 0, [elsewhere])
        assert refused == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(asked, "orders", 0, [leader]) == ErrorCode.NONE
        cancelled = await reassign(asked, "orders", 0, None)
        assert cancelled == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


async def test_every_owner_is_the_preferred_one() -> None:
    async with daemons(None, 2) as cluster:
        asked = await cluster.owner()
        name = asked.server.runtime.find_partition("g").name
        await eventually(lambda: asked.server.membership.ownership.find_owner(name) == asked.node_id)
        wanted = [TopicPartitions(topic=OFFSETS, partitions=[name.partition])]
        answer = await asked.ask(
            ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000), 2
        )
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED


@asynccontextmanager
async def controlled(daemon: Daemon) -> AsyncIterator[DaemonControlPlane]:
    """A daemon that people ask."""
    control = DaemonControlPlane(daemon.server)
    try:
        yield control
    finally:
        control.close()
        await control.namespaces.close()


async def other_than(cluster: Daemons, daemon: Daemon) -> Daemon:
    """Another one, which the first one knows of."""
    other = next(each for each in cluster.by_id.values() if each is not daemon)
    await eventually(lambda: other.node_id in daemon.server.membership.ownership.brokers)
    return other


async def test_a_group_fails_over_to_another_daemon_and_keeps_its_generation() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        other = await other_than(cluster, owner)
        member, generation = await join_alone(owner.client, "g")
        async with controlled(owner) as control:
            moving = asyncio.ensure_future(
                control.failover.failover_group("g", 300, 500, 5000, to=other.node_id)
            )
            told: list[tuple[int | ErrorCode, int | ErrorCode]] = []
            while not moving.done():
                told.append((await owner.committed(), await other.committed()))
            answer = await moving
        steps = list(dict.fromkeys(told))
        assert (ELSEWHERE, ELSEWHERE) in steps
        assert (ELSEWHERE, LOADING) in steps
        assert (answer.owner, answer.group) == (other.node_id, None)
        assert answer.served_after_ms >= 800
        await eventually(lambda: other.coordinates("g"))
        beat = await other.ask(heartbeat_request("g", member, generation), 3)
        assert beat.error_code == ErrorCode.NONE


async def test_a_group_that_fails_over_to_where_it_was_is_taken_anew() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        await join_alone(owner.client, "g")
        partition = owner.server.runtime.find_partition("g")
        assert partition.log is not None
        assert partition.log.durability.replication_queue is not None
        token = partition.log.durability.replication_queue.ownership_token
        async with controlled(owner) as control:
            moving = asyncio.ensure_future(control.failover.failover_group("g", 300, 300, 0))
            told: list[int | ErrorCode] = []
            while not moving.done():
                told.append(await owner.committed())
            answer = await moving
        assert [each for each in dict.fromkeys(told) if each != -1] == [ELSEWHERE, LOADING]
        assert await owner.committed() == -1
        assert answer.owner == owner.node_id
        assert answer.group is not None
        assert answer.group.generation_kept
        assert partition.log.durability.replication_queue.ownership_token > token


async def test_what_is_doubted_as_it_comes_and_is_moved_just_then_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        other = await other_than(cluster, owner)
        name = owner.server.runtime.find_partition("g").name
        pin = KEYS.pin(*name)
        served, member = other.cluster.owned_partitions, other.cluster.member
        assert member is not None
        gained = served.coordinators.on_partition_gained
        doubted = asyncio.Event()

        def gained_and_doubted(partition: TopicPartition, hold_s: float) -> None:
            gained(partition, hold_s)
            if partition == name and not doubted.is_set():
                doubted.set()
                back = StoreTransaction((), (Put(pin, b"%d" % owner.node_id),))
                at = cluster.store.do(lambda map_: map_.transact(back)).revision
                # It was seen while the claim was under way.
                member.table.put_entry(KeyEntry(pin, b"%d" % owner.node_id, at, at, 0))
                served.doubt_partition(name)

        monkeypatch.setattr(served.coordinators, "on_partition_gained", gained_and_doubted)
        away = StoreTransaction((), (Put(pin, b"%d" % other.node_id),))
        cluster.store.do(lambda map_: map_.transact(away))
        await asyncio.wait_for(doubted.wait(), 60)
        await eventually(lambda: owner.coordinates("g"))


async def test_a_try_of_a_move_that_lands_late_undoes_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[StoreTransaction] = []
    transact = ModelConnection.transact

    async def transact_late(engine: ModelConnection, transaction: StoreTransaction) -> TransactionResult:
        if not late and any(operation.key == PIN for operation in transaction.operations):
            late.append(transaction)
            raise StoreUnavailable("no answer in time")
        return await transact(engine, transaction)

    async with daemons(None, 3) as cluster:
        asked = cluster.by_id[1]
        member = asked.cluster.member
        assert member is not None
        monkeypatch.setattr(ModelConnection, "transact", transact_late)
        with pytest.raises(StoreUnavailable):
            await member.move_partition(PINNED, 2)
        await member.move_partition(PINNED, 3)
        await asked.engine.transact(late[0])
        (pin,) = (await asked.engine.read(ReadRange(PIN))).entries
        assert pin.value == b"3"
        await eventually(lambda: PINNED.number in cluster.by_id[3].owned)


async def test_who_does_not_coordinate_a_group_says_who_does() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        asked = await other_than(cluster, owner)
        name = owner.server.runtime.find_partition("g").name
        await eventually(lambda: asked.server.membership.ownership.find_owner(name) == owner.node_id)
        async with controlled(asked) as control:
            for refused in (
                control.failover.failover_group("g", 0, 0, 0),
                control.failover.failover_partition(name.partition, 0, 0),
            ):
                with pytest.raises(Problem, match=f"broker {owner.node_id}") as problem:
                    await refused
                assert problem.value.kind is ProblemKind.NOT_POSSIBLE
            with pytest.raises(Problem, match=f"broker {owner.node_id}"):
                await control.groups.describe_group("g")
            assert f"broker {owner.node_id}" in control.waits.explain_group("g").detail


async def test_a_fault_moves_a_coordinator_to_another_daemon() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        other = await other_than(cluster, owner)
        rule = {"on": {"event": "GroupStabilized"}, "do": {"failover": {"to": other.node_id}}}
        async with controlled(owner) as control:
            control.faults.install_fault(msgspec.convert(rule, FaultRule))
            # A request pending at that moment gets NOT_COORDINATOR.
            assert (await owner.ask(join_request("g"), 3)).error_code == ELSEWHERE
            await eventually(lambda: other.coordinates("g"))
            assert await owner.committed() == ELSEWHERE


async def test_the_status_says_what_the_engine_knows() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        other = await other_than(cluster, owner)
        assert await owner.commit(1) == ErrorCode.NONE
        partition = owner.server.runtime.find_partition("g")
        assert partition.log is not None
        assert partition.log.durability.replication_queue is not None
        for asked in (owner, other):
            async with controlled(asked) as control:
                status = await control.cluster.describe_cluster()
            [found] = [
                part
                for part in status.partitions
                if (part.topic, part.partition) == (OFFSETS, partition.number)
            ]
            assert found.token == partition.log.durability.replication_queue.ownership_token
            assert found.leader_epoch == partition.log.leader_epochs.current
            held = partition.log.size_bytes if asked is owner else None
            assert found.engine_bytes == held
            assert [broker.node_id for broker in status.brokers] == [1, 2]
            for broker in status.brokers:
                assert broker.broker_epoch
                assert broker.session_left_seconds is not None
                assert 0 < broker.session_left_seconds <= SESSION_MS / 1000
            assert status.etcd is not None
            assert status.etcd.single
            assert status.etcd.problem is None
        other.engine.is_cut = True
        async with controlled(other) as control:
            status = await control.cluster.describe_cluster()
        assert status.etcd is not None
        assert status.etcd.problem
        assert status.etcd.nodes[0].problem
        other.engine.is_cut = False


async def test_loading_is_held_once() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        other = await other_than(cluster, owner)
        name = owner.server.runtime.find_partition("g").name
        async with controlled(owner) as control:
            moved = control.cluster.move_partition(*name, other.node_id, 400, None)
            await control.cluster.await_arrival(moved)
        began = asyncio.get_running_loop().time()
        assert await other.committed() == LOADING
        await eventually(lambda: other.coordinates("g"))
        assert asyncio.get_running_loop().time() - began > 0.2
        pin = ClusterKeys(CLUSTER_ID).pin(*name)
        await eventually(lambda: cluster.store.map.entries[pin].value == b"%d" % other.node_id)


async def test_the_ledger_names_a_takeover_that_was_before_anybody_asked() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        await cluster.kill(owner)
        heir = await cluster.owner()
        async with controlled(heir) as control:
            await join_alone(heir.client, "g")
            [entry] = control.ledger.list_entries("g")
            name = str(heir.server.runtime.find_partition("g").name)
            assert f"{name}: broker {heir.node_id} owns it: claimed" in [act.what for act in entry.also]
