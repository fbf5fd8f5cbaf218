"""An engine loses all its data under running brokers: only the brokers' disks still hold it."""

from pathlib import Path

import pytest

from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import KeyPage, KeyValueStoreError, Put, ReadRange, StoreTransaction
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, daemons, eventually
from tests.cluster.model_map import ModelMap
from tests.cluster.model_store import ModelConnection, ModelStore

SESSION = {"broker.session.timeout.ms": "2000"}


def lose(store: ModelStore) -> None:
    """Empty the engine and advance its revision to the old one."""
    lost, store.map = store.map, ModelMap()
    store.begin_anew()
    while store.map.revision <= lost.revision:
        store.do(lambda map_: map_.transact(StoreTransaction((), (Put(b"another's", b""),))))


async def test_nothing_is_taken_from_the_disk_that_the_engine_has_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons(tmp_path, 1, **SESSION) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(5) == ErrorCode.NONE
        partition = owner.server.runtime.find_partition("g")
        copy = tmp_path / "1" / str(partition.name) / f"{0:020}.log"
        size = copy.stat().st_size
        looks: list[ReadRange] = []
        read = owner.engine.read

        async def looked(asked: ReadRange) -> KeyPage:
            looks.extend([asked] if asked.key == ClusterKeys(CLUSTER_ID).meta else [])
            return await read(asked)

        monkeypatch.setattr(owner.engine, "read", looked)
        lose(cluster.store)
        await eventually(lambda: len(looks) > 3)
        assert partition.state is PartitionState.ABSENT
        # Check every topic, since the id is unknown.
        asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(15) + b"x", name=None)])
        await owner.ask(asked, 12)
        assert owner.server.data_plane.catalogue.find_topic("orders") is not None
        assert owner.cluster.member is not None
        assert not owner.cluster.member.owned
        assert copy.stat().st_size == size > 0


async def test_no_topic_is_made_and_no_producer_id_given_where_the_cluster_is_lost() -> None:
    store, of_cluster = ModelStore(), ClusterKeys("c")
    store.do(lambda map_: map_.transact(StoreTransaction((), (Put(of_cluster.meta, b"mine"),))))
    keys = CatalogueKeys(ModelConnection(store), of_cluster, lambda _, partitions, __: [[1]] * partitions)
    await keys.read_cluster_entry()
    topic = {"name": "a", "topic_id": "1AAAAAAAAAAAAAAAAAAAAA", "partitions": 1, "configs": {}}
    await keys.write_document({"topics": [topic]})
    keys.set_baseline({"topics": [topic]})
    await keys.reserve_producer_ids()
    lose(store)
    with pytest.raises(KeyValueStoreError):
        await keys.read_all_keys()
    with pytest.raises(KeyValueStoreError):
        await keys.refresh_topics(["a"])
    with pytest.raises((KeyValueStoreError, ClusterChangeRefused)):
        await keys.write_document({"topics": [topic, topic | {"name": "b", "topic_id": "id2"}]})
    with pytest.raises((KeyValueStoreError, ClusterChangeRefused)):
        await keys.reserve_producer_ids()
    assert list(keys.topics) == ["a"]
    assert list(store.map.entries) == [b"another's"]
