"""Keys in etcd that this version of groupd did not write: they are skipped, named once, and stop nothing."""

import json
import logging
from pathlib import Path

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import Delete, Put, StoreTransaction
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemons, daemons, eventually

KEYS = ClusterKeys(CLUSTER_ID)
GARBAGE = (b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b"[" * 100_000)
NEWER = b'{"format": 2, "anything": true}'


def put(cluster: Daemons, key: bytes, value: bytes) -> None:
    cluster.store.do(lambda map_: map_.transact(StoreTransaction((), (Put(key, value),))))


def delete(cluster: Daemons, key: bytes) -> None:
    cluster.store.do(lambda map_: map_.transact(StoreTransaction((), (Delete(key),))))


def skipped(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that name keys; none of any other trouble is there."""
    lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert all(record.getMessage().startswith("Skipped the key ") for record in lines), lines
    assert not any(record.exc_info for record in lines)
    assert all(record.getMessage().isprintable() for record in lines)
    return [record.getMessage() for record in lines]


async def test_broker_keys_that_cannot_be_read_stop_neither_a_start_nor_a_failover(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = KEYS.broker(1).removesuffix(b"1")
    address = {"listeners": {"PLAINTEXT": ["h", "x"]}, "rack": ""}
    values = [*GARBAGE, json.dumps(address).encode(), NEWER]
    written = {broker + b"%d" % (number + 7): value for number, value in enumerate(values)}
    written |= {broker + b"one": b"{}", broker + b"\xff/": b"{}", broker: b"{}"}
    async with daemons(None, 2) as cluster:
        first, second = cluster.by_id.values()
        for key, value in written.items():
            put(cluster, key, value)
        third = await cluster.start(3)
        await eventually(cluster.is_placed)
        assert third.owned
        del cluster.by_id[2]
        await second.server.close()
        await eventually(cluster.is_placed)
        assert first.owned | third.owned == set(range(3))
        lines = skipped(caplog)
        assert len(lines) == 3 * len(written)  # each daemon names each key once
        assert sum("newer version of groupd" in line for line in lines) == 3


@pytest.mark.parametrize("value", [b"", b"x", b"\xff", b"1 2 3 x"])
@pytest.mark.parametrize("kind", ["owner", "epoch", "pin", "bytes"])
async def test_a_number_that_cannot_be_read_costs_its_partition_alone(
    kind: str, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    key = {
        "owner": KEYS.owner(CONSUMER_OFFSETS, 0),
        "epoch": KEYS.epoch(CONSUMER_OFFSETS, 0),
        "pin": KEYS.pin(CONSUMER_OFFSETS, 0),
        "bytes": KEYS.topic_bytes(9),
    }[kind]
    async with daemons(None, 1) as cluster:
        (first,) = cluster.by_id.values()
        put(cluster, key, value)
        put(cluster, KEYS.owner(CONSUMER_OFFSETS, 0) + b"x", b"1")
        second = await cluster.start(2)
        expected = {1, 2} if kind in ("owner", "epoch") else {0, 1, 2}
        await eventually(lambda: first.owned | second.owned >= expected)
        assert skipped(caplog)
        delete(cluster, key)
        await eventually(cluster.is_placed)


async def test_configs_of_groups_and_ids_that_cannot_be_read_leave_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with daemons(None, 1) as cluster:
        put(cluster, KEYS.group_config("billing"), b"[]")
        put(cluster, KEYS.group_config("shipping"), b'{"consumer.session.timeout.ms": 1}')
        second = await cluster.start(2)
        await eventually(cluster.is_placed)
        assert second.server.data_plane.catalogue.group_configs.find_configs("billing") == {}
        assert len(skipped(caplog)) == 4
        topic = cluster.store.map.entries[KEYS.topic("orders")].value
        for name in (b"..%2f", b"\xff"):
            put(cluster, KEYS.topic("") + name, topic)
        await eventually(lambda: len(skipped(caplog)) == 8)
        put(cluster, KEYS.group_config("billing"), b'{"consumer.session.timeout.ms": "46000"}')
        catalogue = second.server.data_plane.catalogue
        await eventually(lambda: dict(catalogue.group_configs.find_configs("billing")) != {})
        put(cluster, KEYS.producer_ids, b"many")
        answer = await second.ask(InitProducerIdRequest(transaction_timeout_ms=1000), 4)
        assert answer.error_code != 0


@pytest.mark.parametrize("value", [b"{", b'{"partitions": 3}', NEWER])
async def test_a_topic_that_cannot_be_read_keeps_its_records(
    value: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemons(tmp_path, 1) as cluster:
        (first,) = cluster.by_id.values()
        key = KEYS.topic("orders")
        before = cluster.store.map.entries[key].value
        put(cluster, key, value)
        await eventually(lambda: bool(skipped(caplog)))
        assert first.server.data_plane.catalogue.find_topic("orders") is not None
        await first.server.close()
        directories = sorted(path.name for path in (tmp_path / "1").glob("orders-*"))
        assert len(directories) == 3
        again = await cluster.start(1)
        await eventually(lambda: again.server.ready.is_set())
        assert again.server.data_plane.catalogue.find_topic("orders") is not None
        assert sorted(path.name for path in (tmp_path / "1").glob("orders-*")) == directories
        assert cluster.store.map.entries[key].value == value
        put(cluster, key, before)
        await eventually(cluster.is_placed)
        assert sorted(path.name for path in (tmp_path / "1").glob("orders-*")) == directories


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEYS.shape(TRANSACTION_STATE), b"{"),
        (KEYS.shape(TRANSACTION_STATE), NEWER),
        (KEYS.security("acl/1"), b"{"),
        (KEYS.security("acl/1"), NEWER),
        (KEYS.meta, NEWER),
    ],
)
async def test_a_start_without_what_it_needs_names_the_key(key: bytes, value: bytes) -> None:
    """ACLs are not skipped: one may deny something."""
    async with daemons(None, 1) as cluster:
        before = cluster.store.map.entries.get(key)
        put(cluster, key, value)
        with pytest.raises(StartFailed, match=key.decode()):
            await cluster.start(2)
        if before is not None:
            put(cluster, key, before.value)
