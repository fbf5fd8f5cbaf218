"""Topics that are deleted while records are on their way, and deletions that the engine does not take."""

import asyncio
from pathlib import Path

import pytest

from coordinator.cluster import catalogue_keys
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import StoreTransaction, StoreUnavailable, TransactionResult
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, daemons, daemons_with, eventually
from tests.cluster.daemon.records import TOPIC, batch, create, leader, partition_of, produced, read, write
from tests.cluster.daemon.spread import PROPERTIES, coordinator_of, spread

KEYS = ClusterKeys(CLUSTER_ID)


async def deleted(daemon: Daemon, topic: str = TOPIC) -> int:
    """Asks for a deletion by a connection of its own; the error code."""
    async with Client(daemon.server) as client:
        answer = await client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 3)
    return int(answer.responses[0].error_code)


async def is_underway(daemon: Daemon) -> None:
    """Until a record is in the log, and not in the engine."""
    part = partition_of(daemon)
    assert part is not None
    log = part.log
    assert log is not None
    await eventually(lambda: log.log_end_offset > log.durable_offset)


async def test_who_waits_for_records_of_a_topic_that_is_deleted_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster)
        transact, may_go, is_asked = first.engine.transact, asyncio.Event(), asyncio.Event()

        async def held(transaction: StoreTransaction) -> TransactionResult:
            keys = [operation.key for operation in transaction.operations]
            if any(key.startswith(KEYS.log_range(TOPIC, 0)[0]) for key in keys):
                await asyncio.Event().wait()
            if KEYS.catalogue_removed in keys:
                is_asked.set()
                await may_go.wait()
            return await transact(transaction)

        monkeypatch.setattr(first.engine, "transact", held)
        waiting = asyncio.create_task(produced(first, batch(b"a")))
        await is_underway(first)
        deletion = asyncio.create_task(deleted(first))
        await is_asked.wait()
        # Meanwhile this broker reads another partition.
        number = min(first.owned)
        group = first.server.runtime.partitions[number]
        tenure = group.tenure
        first.cluster.owned_partitions.doubt_partition(TopicPartition(CONSUMER_OFFSETS, number))
        await eventually(lambda: group.state is PartitionState.OWNED and group.tenure > tenure)
        may_go.set()
        assert await deletion == ErrorCode.NONE
        await asyncio.wait_for(waiting, 60)


async def refused(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a deletion refused, since the engine does not answer; it does again then."""
    monkeypatch.setattr(catalogue_keys, "_MAX_TRIES", 2)
    daemon.engine.is_cut = True
    assert await deleted(daemon) == ErrorCode.KAFKA_STORAGE_ERROR
    daemon.engine.is_cut = False


async def test_what_is_under_way_is_not_acknowledged_where_the_deletion_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a")
        first.engine.is_cut = True
        waiting = asyncio.create_task(produced(first, batch(b"b")))
        await is_underway(first)
        await refused(first, monkeypatch)
        is_acknowledged = (await waiting).error_code == ErrorCode.NONE
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert found[0] == b"a"
        assert (b"b" in found) or not is_acknowledged


async def test_a_topic_of_one_replica_keeps_its_records_where_the_deletion_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons(tmp_path, 2) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1]]) == ErrorCode.NONE
        first = cluster.by_id[1]
        await write(first, b"a", b"b")
        await refused(first, monkeypatch)
        await eventually(lambda: first.server.data_plane.catalogue.find_topic(TOPIC) is not None)
        assert await read(first) == [b"a", b"b"]
        assert await deleted(first) == ErrorCode.NONE
        await eventually(lambda: not list(tmp_path.glob(f"*/{TOPIC}-*")))


async def test_a_transaction_that_ends_while_a_deletion_is_refused_ends_in_that_topic_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_keys, "_MAX_TRIES", 2)
    async with daemons_with((), tmp_path, 3, **PROPERTIES) as cluster:
        transactor, client = await spread(cluster)
        await transactor.begin(client)
        await transactor.write(client)
        coordinator = await coordinator_of(cluster, client, transactor)
        places = [("orders", 0), ("orders", 1), ("payments", 0)]
        [topic] = [name for name, at in places if await client.leader(name, at) == coordinator.node_id]
        transact, is_attempted, may_fail = coordinator.engine.transact, asyncio.Event(), asyncio.Event()

        async def refuses(transaction: StoreTransaction) -> TransactionResult:
            if any(KEYS.catalogue_removed == each.key for each in transaction.operations):
                is_attempted.set()
                await may_fail.wait()
                raise StoreUnavailable("no deletion is taken")
            return await transact(transaction)

        monkeypatch.setattr(coordinator.engine, "transact", refuses)
        deletion = asyncio.create_task(deleted(coordinator, topic))
        await is_attempted.wait()
        await transactor.end(client)
        may_fail.set()
        assert await deletion == ErrorCode.KAFKA_STORAGE_ERROR
        await eventually(lambda: coordinator.server.data_plane.catalogue.find_topic(topic) is not None)
        transactor.promises.settle(await transactor.look(client))
        assert transactor.promises.committed == {1}
