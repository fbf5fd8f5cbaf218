"""All keys of a small cluster in etcd, and what a daemon serves from them.

The daemons run in this process over the model of etcd that the cluster's tests use, so that neither writing nor
reading needs etcd: a key has the same bytes in both. They seal logs early, to have manifests and pieces in so few
records. Keys with a lease are left out, as if all daemons had died.
"""

import asyncio
import base64
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon import replicated_logs
from coordinator.cluster.key_value_store import KeyEntry
from coordinator.core.shared_types import CONSUMER_OFFSETS
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, Daemons, eventually
from tests.cluster.daemon.records import TOPIC, create, leader, write
from tests.golden.data_directory import KEPT, TIMEOUT_S, add_security, configure_group, describe
from tests.golden.versions import write_json
from tests.kafka_log import history
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import make_consumer_groups
from tests.kafka_log.workload import Workload

FILE: Final = "etcd.json"
KEYS: Final = ClusterKeys(CLUSTER_ID)
TOPICS: Final = (("orders", history.PARTITIONS),)
OF_RECORDS: Final = ("log_starts", "log_ends", "committed_records", "producers")
"""Parts of a description by partition. Only topics with replicas have their records in etcd."""


def generate(version: str) -> None:
    """Replaces the keys and the description."""
    with tempfile.TemporaryDirectory(prefix="groupd-golden-") as temporary:
        write_json(version, FILE, asyncio.run(_live(Path(temporary))))


async def _live(directory: Path) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(replicated_logs, "SEAL_RECORDS", 20)
        patched.setattr(replicated_logs, "SEAL_BYTES", 2000)
        cluster = Daemons(directory, stack, TOPICS)
        first, second = [await cluster.start(node_id, **KEPT) for node_id in (1, 2)]
        await eventually(cluster.is_placed)
        await create(first, factor=2)
        for number in range(30):
            await write(await leader(cluster), b"one %d" % number, b"two")
        await _stop(cluster, second)
        await _placed_at(cluster, first)
        await asyncio.to_thread(_first_run, _bootstrap(first))
        sealed = {KEYS.manifest(TOPIC, 0), KEYS.manifest(CONSUMER_OFFSETS, 1)}
        await eventually(lambda: sealed <= cluster.store.map.entries.keys())
        await _stop(cluster, first)
        first = await cluster.start(1, **KEPT)
        await _placed_at(cluster, first)
        producer = await asyncio.to_thread(_second_run, _bootstrap(first))
        content = await described(first)
        keys = [dump(entry) for _, entry in sorted(cluster.store.map.entries.items()) if not entry.lease]
        revision = cluster.store.map.revision
        del producer
        await _stop(cluster, first)
        return {"revision": revision, "keys": keys, "content": content}


def _first_run(bootstrap: str) -> None:
    with Connection(bootstrap) as connection:
        history.fill(connection)
        make_consumer_groups(connection, "golden")
        configure_group(connection, "golden-configured", "consumer.session.timeout.ms", "50000")
    add_security(bootstrap)


def _second_run(bootstrap: str) -> Any:
    """Return the producer of the open transaction. The transaction stays open as long as the producer exists."""
    clients = Workload(bootstrap)
    reader: Consumer = clients.consumer("transactional")
    producer = clients.producer("golden-completed")
    clients.send_offsets(producer, reader, [(TOPIC, 0, 7)])
    producer.commit_transaction(TIMEOUT_S)
    clients.send_offsets(producer, reader, [(TOPIC, 0, 100)])
    producer.abort_transaction(TIMEOUT_S)
    still_open = clients.producer("golden-open")
    clients.send_offsets(still_open, reader, [(TOPIC, 0, 11)])
    assert still_open.flush(TIMEOUT_S) == 0
    with Connection(bootstrap) as connection:
        history.commit(connection, "by-hand-simple", {0: 2**40}, metadata="größer 日本 😀")
    return still_open


async def load(directory: Path, document: dict[str, Any], stack: AsyncExitStack) -> tuple[Daemons, Daemon]:
    """A daemon of node 1, with an empty data directory, on a store that holds the keys of a document."""
    cluster = Daemons(directory, stack, TOPICS)
    cluster.store.map.restore([_entry(key) for key in document["keys"]], ())
    cluster.store.map.revision = document["revision"]
    daemon = await cluster.start(1, **KEPT)
    await _placed_at(cluster, daemon)
    return cluster, daemon


async def described(daemon: Daemon) -> dict[str, Any]:
    """What a daemon that runs alone serves from the keys."""
    content = await asyncio.to_thread(describe, _bootstrap(daemon))
    for part in OF_RECORDS:
        content[part] = {name: value for name, value in content[part].items() if name == f"{TOPIC}-0"}
    return content


def dump(entry: KeyEntry) -> list[Any]:
    """A key for JSON: its name, value and revisions."""
    value = base64.b64encode(entry.value).decode()
    return [entry.key.decode(), value, entry.created_at, entry.written_at]


def _entry(key: list[Any]) -> KeyEntry:
    name, value, created_at, written_at = key
    return KeyEntry(name.encode(), base64.b64decode(value), created_at, written_at, 0)


def _bootstrap(daemon: Daemon) -> str:
    return f"127.0.0.1:{daemon.server.endpoints[0].port}"


async def _stop(cluster: Daemons, daemon: Daemon) -> None:
    del cluster.by_id[daemon.node_id]
    await daemon.server.close()


async def _placed_at(cluster: Daemons, daemon: Daemon) -> None:
    """Until the daemon alone has all partitions, and has read them."""
    await eventually(cluster.is_placed)
    assert await leader(cluster) is daemon
