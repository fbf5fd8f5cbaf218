"""A directory that was used without a cluster becomes one of a cluster, and so do those of a cluster that etcd has
lost: nothing of them is lost, and nothing is half done."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.broker.security_file import open_security_file
from coordinator.cluster import partition_log_store as store_module
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon.cluster_import import ImportResult, import_directories
from coordinator.cluster.daemon.import_source import ImportRefused
from coordinator.cluster.key_value_store import Put, StoreTransaction, StoreUnavailable, TransactionResult
from coordinator.config.properties import parse_config
from coordinator.core import clock
from coordinator.core.message_text import StartFailed
from coordinator.security.core.acl import AclOperation
from coordinator.security.core.sasl_mechanisms import ScramMechanism
from coordinator.security.core.security_state import SecurityState
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.files import OsFiles
from storage.record import Record
from storage.storage_errors import DataDirectoryUnusable
from storage.topic_partition import TopicPartition
from tests.apis.authorized_clients import TOPIC, acl
from tests.broker.harness import Client, settings, start
from tests.broker.transactor import TOPICS, Transactor
from tests.cli.log_directory import flip
from tests.cluster.daemon import records
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually
from tests.cluster.model_store import ModelConnection, ModelStore
from tests.security.server.sasl_server import credential

GROUPS = [f"g{number}" for number in range(6)]
COUNTED = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


class BrokenEngine(ModelConnection):
    """One that answers no more after so many transactions; the last one happens all the same."""

    def __init__(self, store: ModelStore, most: int) -> None:
        super().__init__(store)
        self.left = most

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        self.left -= 1
        if self.left < 0:
            raise StoreUnavailable("broken off")
        outcome = await super().transact(transaction)
        if not self.left:
            raise StoreUnavailable("nobody knows")
        return outcome


async def use(data: Path, node_id: int = 1) -> None:
    """A directory that was used by one broker: groups, a topic with a property, records, a producer id."""
    how = settings(data, {"node.id": str(node_id)}, topics=[("orders", 3)])
    server = await start(replace(how, cluster_id=CLUSTER_ID))
    daemon = Daemon(node_id, server, ModelConnection(ModelStore()))
    async with daemon.client:
        for offset, group in enumerate(GROUPS):
            assert await daemon.commit(offset, group) == ErrorCode.NONE
        config = CreatableTopicConfig(name="retention.ms", value="123456")
        made = CreatableTopic(
            name="made", num_partitions=2, replication_factor=1, assignments=[], configs=[config]
        )
        await daemon.ask(CreateTopicsRequest(topics=[made], timeout_ms=5000), 5)
        await produce(daemon, "orders", 1)
        await daemon.ask(COUNTED, 3)
    await server.close()


async def produce(daemon: Daemon, topic: str, partition: int) -> None:
    """One record, which retention keeps."""
    data = encode_batch([Record(-1, clock.wall_ms(), None, b"kept")])
    parts = [PartitionProduceData(index=partition, records=data)]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=parts)]
    )
    answer = await daemon.ask(request, 7)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def fetched(daemon: Daemon, topic: str, partition: int) -> bytes:
    """What it has of a partition that it leads."""
    part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=100_000)
    asked = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[part])])
    answer = await daemon.ask(asked, 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    return bytes(answer.responses[0].partitions[0].records or b"")


async def imported(store: ModelStore, *paths: Path, engine: ModelConnection | None = None) -> ImportResult:
    """By the command's own way, but for the connection."""
    config = parse_config({"cluster.etcd.endpoints": "model:1"})
    directories = [str(path) for path in paths]
    return await import_directories(engine or ModelConnection(store), OsFiles(), directories, config, {})


@asynccontextmanager
async def brokers(data: Path, store: ModelStore, *node_ids: int) -> AsyncIterator[Daemons]:
    """Of the cluster that is there."""
    async with AsyncExitStack() as stack:
        cluster = Daemons(data, stack)
        cluster.store = store
        try:
            for node_id in node_ids:
                await cluster.start(node_id)
            yield cluster
        finally:
            for daemon in cluster.by_id.values():
                daemon.engine.is_cut = False
                await daemon.server.close()


async def committed(cluster: Daemons) -> list[int | ErrorCode]:
    """Return the offsets of the groups, requested from the coordinator of each group."""
    return [await (await cluster.owner(group)).committed(group) for group in GROUPS]


async def test_all_of_it_is_in_the_cluster(tmp_path: Path) -> None:
    store = ModelStore()
    await use(tmp_path / "1")
    done = await imported(store, tmp_path / "1")
    assert (done.cluster_id, done.topics, done.left_out) == (CLUSTER_ID, 2, [])
    assert done.size_bytes > 0
    async with brokers(tmp_path, store, 1, 2) as cluster:
        assert await committed(cluster) == list(range(len(GROUPS)))
        for group in GROUPS:
            assert await (await cluster.owner(group)).commit(99, group) == ErrorCode.NONE
        first, second = cluster.by_id[1], cluster.by_id[2]
        assert b"kept" in await fetched(first, "orders", 1)
        answer = await second.ask(MetadataRequest(topics=None), 9)
        led = {topic.name: {part.leader_id for part in topic.partitions} for topic in answer.topics}
        assert (led["orders"], led["made"]) == ({1}, {1})
        made = second.server.data_plane.catalogue.find_topic("made")
        assert made is not None
        assert made.overrides == {"retention.ms": "123456"}
        # The directory had given out the first ones.
        assert (await second.ask(COUNTED, 3)).producer_id >= 1000
    async with brokers(tmp_path, store, 2) as cluster:
        assert await committed(cluster) == [99] * len(GROUPS)


class RepeatingEngine(ModelConnection):
    """An engine that keeps transactions and may repeat unanswered ones later."""

    def __init__(self, store: ModelStore) -> None:
        super().__init__(store)
        self.asked: list[StoreTransaction] = []

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        if ClusterKeys(CLUSTER_ID).meta in [each.key for each in transaction.operations]:
            await self.repeat()
        self.asked.append(transaction)
        return await super().transact(transaction)

    async def repeat(self) -> None:
        """All of them come once more, the first ones last."""
        for transaction in reversed(self.asked):
            await super().transact(transaction)


async def test_what_comes_late_of_an_import_changes_nothing(tmp_path: Path) -> None:
    store = ModelStore()
    await use(tmp_path / "1")
    engine = RepeatingEngine(store)
    await imported(store, tmp_path / "1", engine=engine)
    async with brokers(tmp_path, store, 2) as cluster:
        assert await committed(cluster) == list(range(len(GROUPS)))
        assert (await cluster.by_id[2].ask(COUNTED, 3)).error_code == ErrorCode.NONE
        asked = DeleteTopicsRequest(topic_names=["made"], timeout_ms=5000)
        assert not (await cluster.by_id[2].ask(asked, 5)).responses[0].error_code
    before = dict(store.map.entries)
    await engine.repeat()
    assert store.map.entries == before


async def test_a_compacted_log_is_taken_as_it_is(tmp_path: Path) -> None:
    small = {
        "offsets.topic.segment.bytes": "2000",
        "log.cleaner.backoff.ms": "20",
        "offsets.topic.num.partitions": "1",
    }
    how = settings(tmp_path / "1", small, topics=[("orders", 3)])
    server = await start(replace(how, cluster_id=CLUSTER_ID))
    daemon = Daemon(1, server, ModelConnection(ModelStore()))
    async with daemon.client:
        for offset in range(200):
            assert await daemon.commit(offset) == ErrorCode.NONE
        log = server.runtime.partitions[0].log
        assert log is not None
        await eventually(lambda: log.cleaned_offset > 0)
        await server.cleaner.stop()
        kept = [batch.header.base_offset for batch in log.iterate_batches()]
        assert len(kept) < 200
    await server.close()
    store = ModelStore()
    await imported(store, tmp_path / "1")
    async with brokers(tmp_path, store, 2) as cluster:
        owner = await cluster.owner()
        assert await owner.committed() == 199
        assert await owner.commit(200) == ErrorCode.NONE
        copy = owner.server.runtime.partitions[0].log
        assert copy is not None
        assert [batch.header.base_offset for batch in copy.iterate_batches()][: len(kept)] == kept
        assert copy.log_end_offset == 201
    async with brokers(tmp_path, store, 1) as cluster:
        assert await (await cluster.owner()).committed() == 200


async def test_a_start_that_was_refused_is_not_in_the_way(tmp_path: Path) -> None:
    store = ModelStore()
    await use(tmp_path / "1")
    with pytest.raises(StartFailed, match="cluster import"):
        async with brokers(tmp_path, store, 1):
            pass
    await imported(store, tmp_path / "1")
    async with brokers(tmp_path, store, 1) as cluster:
        assert await committed(cluster) == list(range(len(GROUPS)))


@pytest.mark.parametrize("most", [1, 2, 4, 6, 9, 11], ids=lambda most: f"after-{most}")
async def test_what_was_broken_off_is_run_again(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_TRIES", 1)
    store = ModelStore()
    await use(tmp_path / "1")
    with pytest.raises(ImportRefused, match="again"):
        await imported(store, tmp_path / "1", engine=BrokenEngine(store, most))
    async with AsyncExitStack() as stack:
        cluster = Daemons(tmp_path, stack)
        cluster.store = store
        with pytest.raises(StartFailed, match="cluster import"):
            await cluster.start(2)
    await imported(store, tmp_path / "1")
    async with brokers(tmp_path, store, 2) as cluster:
        assert await committed(cluster) == list(range(len(GROUPS)))


async def test_an_import_that_ended_only_marks_the_directory_when_it_is_run_again(tmp_path: Path) -> None:
    store = ModelStore()
    await use(tmp_path / "1")
    await imported(store, tmp_path / "1")
    (tmp_path / "1" / ".cluster").unlink()
    async with brokers(tmp_path, store, 2) as cluster:
        assert await (await cluster.owner(GROUPS[0])).commit(50, GROUPS[0]) == ErrorCode.NONE
    assert (await imported(store, tmp_path / "1")).was_done
    async with brokers(tmp_path, store, 1) as cluster:
        assert await committed(cluster) == [50, *range(1, len(GROUPS))]


async def test_acls_and_users_of_the_directory_are_those_of_the_cluster(tmp_path: Path) -> None:
    store, user = ModelStore(), ("carol", ScramMechanism.SCRAM_SHA_256)
    wanted = SecurityState(
        frozenset(acl(f"u{number}", AclOperation.READ, TOPIC, "orders") for number in range(150)),
        {user: credential(user[1], "secret")},
    )
    how = replace(settings(tmp_path / "1", {"node.id": "1"}), cluster_id=CLUSTER_ID)
    server = await start(how)
    await server.security.store.change_state(wanted)
    await server.close()
    await imported(store, tmp_path / "1")
    async with brokers(tmp_path, store, 1, 2) as cluster:
        for daemon in cluster.by_id.values():
            assert daemon.server.security.store.state == wanted
    # A change of a directory from here on would go unnoticed.
    with (
        pytest.raises(DataDirectoryUnusable, match="to a cluster"),
        open_security_file(OsFiles(), str(tmp_path / "1")),
    ):
        raise AssertionError


async def test_records_with_replicas_are_on_disks_when_etcd_has_lost_them(tmp_path: Path) -> None:
    async with daemons(tmp_path, 2) as cluster:
        assert await records.create(cluster.by_id[1], factor=2, partitions=2) == ErrorCode.NONE
        for number in range(2):
            await records.write(await records.leader(cluster, number), b"a", b"b", number=number)
    lost = ModelStore()
    await imported(lost, tmp_path / "1", tmp_path / "2")
    async with brokers(tmp_path, lost, 1, 2) as cluster:
        for number in range(2):
            owner = cluster.by_id[1].server.membership.ownership.find_owner(
                TopicPartition(records.TOPIC, number)
            )
            assert owner is not None
            assert await records.read(cluster.by_id[owner], number=number) == [b"a", b"b"]
            assert await records.create(cluster.by_id[1], factor=2) == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_directories_of_a_cluster_that_etcd_has_lost_are_a_cluster_again(tmp_path: Path) -> None:
    async with daemons(tmp_path, 2) as cluster:
        for offset, group in enumerate(GROUPS):
            assert await (await cluster.owner(group)).commit(offset, group) == ErrorCode.NONE
        owners = cluster.by_id[1].server.membership.ownership
        [orders] = [each for each in cluster.by_id[1].server.data_plane.catalogue if each.name == "orders"]
        leaders = [owners.find_owner(part.name) for part in orders.partitions]
        for number, leader in enumerate(leaders):
            assert leader is not None
            await produce(cluster.by_id[leader], "orders", number)
    lost = ModelStore()
    with pytest.raises(StartFailed, match="cluster import"):
        async with brokers(tmp_path, lost, 1):
            pass
    assert not lost.map.entries
    await imported(lost, tmp_path / "1", tmp_path / "2")
    async with brokers(tmp_path, lost, 1, 2) as cluster:
        assert await committed(cluster) == list(range(len(GROUPS)))
        for number, leader in enumerate(leaders):
            assert leader is not None
            assert b"kept" in await fetched(cluster.by_id[leader], "orders", number)


async def test_a_directory_that_was_left_out_is_refused_and_kept(tmp_path: Path) -> None:
    async with daemons(tmp_path, 2):
        pass
    lost = ModelStore()
    await imported(lost, tmp_path / "1")
    before = {path for path in (tmp_path / "2").rglob("*") if path.is_dir()}
    with pytest.raises(StartFailed, match="cluster import"):
        async with brokers(tmp_path, lost, 2):
            pass
    assert before <= set((tmp_path / "2").rglob("*"))


async def refused(store: ModelStore, *paths: Path) -> str:
    """Return the reason of a rejected import and check that the engine is unchanged."""
    before = dict(store.map.entries)
    with pytest.raises(ImportRefused) as error:
        await imported(store, *paths)
    assert dict(store.map.entries) == before
    return str(error.value)


async def test_an_engine_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    await use(tmp_path / "1")
    async with daemons(tmp_path / "others", 1) as cluster:
        assert ClusterKeys(CLUSTER_ID).cluster_range[0].decode() in await refused(
            cluster.store, tmp_path / "1"
        )
    something = ModelStore()
    something.do(
        lambda map_: map_.transact(StoreTransaction((), (Put(ClusterKeys(CLUSTER_ID).topic("a"), b"{}"),)))
    )
    assert "cluster.etcd.prefix" in await refused(something, tmp_path / "1")


async def test_a_directory_that_is_none_or_in_use_is_refused(tmp_path: Path) -> None:
    store = ModelStore()
    assert "not a data directory" in await refused(store, tmp_path / "1")
    assert not (tmp_path / "1").exists()
    server = await start(settings(tmp_path / "1"))
    try:
        assert str(tmp_path / "1") in await refused(store, tmp_path / "1")
    finally:
        await server.close()


async def test_a_damaged_log_is_refused_by_name(tmp_path: Path) -> None:
    await use(tmp_path / "1")
    logs = (tmp_path / "1").glob("__consumer_offsets-*/*.log")
    found = sorted(path for path in logs if path.stat().st_size > 80)
    flip(found[0], 75)
    assert found[0].parent.name in await refused(ModelStore(), tmp_path / "1")


async def test_an_open_transaction_is_refused_by_name(tmp_path: Path) -> None:
    server = await start(settings(tmp_path / "1", topics=TOPICS))
    transactor = Transactor()
    async with Client(server) as client:
        await transactor.begin(client)
        await transactor.write(client)
    await server.close()
    assert "transaction" in await refused(ModelStore(), tmp_path / "1")


async def test_a_transactional_id_whose_transactions_have_ended_is_left_out_and_told(tmp_path: Path) -> None:
    server = await start(settings(tmp_path / "1", topics=TOPICS))
    transactor = Transactor()
    async with Client(server) as client:
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.look(client)
    await server.close()
    [line] = (await imported(ModelStore(), tmp_path / "1")).left_out
    assert "transactional" in line


async def test_directories_that_are_not_of_one_cluster_are_refused(tmp_path: Path) -> None:
    for name in ("1", "2"):
        server = await start(settings(tmp_path / name, {"node.id": name}))
        await server.close()
    said = await refused(ModelStore(), tmp_path / "1", tmp_path / "2")
    assert str(tmp_path / "2") in said
