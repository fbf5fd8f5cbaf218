"""Invalid configurations of a cluster daemon stop the start with a reason."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.broker.composition_root import open_server
from coordinator.broker.server_settings import ServerSettings
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon.etcd_cluster import EtcdCluster, join_cluster, why_no_member
from coordinator.cluster.daemon.etcd_status import EtcdHealth
from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import parse_config
from coordinator.core.message_text import StartFailed
from coordinator.daemon import EXIT_SUCCESS, run_daemon
from coordinator.security.core.sasl_login import Login
from tests.broker.harness import serving, settings
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, HANGS_S, daemons, eventually
from tests.cluster.daemon.secured import by_certificate
from tests.cluster.model_store import ModelConnection, ModelStore
from tests.security.server.certificates import Identity

ENDPOINTS = {"cluster.etcd.endpoints": "127.0.0.1:1"}
ADVERTISED = {**ENDPOINTS, "advertised.listeners": "PLAINTEXT://127.0.0.1:9092"}
BOTH = {"security.inter.broker.protocol": "PLAINTEXT"}
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg"
NAME, MECHANISM = "inter.broker.listener.name", "sasl.mechanism.inter.broker.protocol"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    JAAS: 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a-secret";',
    NAME: "SASL_PLAINTEXT",
}


@pytest.mark.parametrize(
    "properties",
    [
        {"offsets.history": "keep"},
        {"broker.session.timeout.ms": "1999"},
        {"cluster.etcd.username": "groupd"},
        {"cluster.etcd.cert": "cert.pem"},
        {"cluster.etcd.cert": "cert.pem", "cluster.etcd.key": "key.pem"},
    ],
    ids=lambda properties: "-".join(properties),
)
def test_values_that_do_not_go_together_are_named(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({**ENDPOINTS, **properties})
    assert any(name in str(error.value) for name in properties)


def with_id(tmp_path: Path, properties: dict[str, str]) -> ServerSettings:
    return replace(settings(tmp_path / "data", properties), cluster_id=CLUSTER_ID)


def test_what_a_cluster_needs_and_is_not_there_is_named(tmp_path: Path) -> None:
    assert why_no_member(with_id(tmp_path, ADVERTISED)) is None
    for how, named in (
        (with_id(tmp_path, ENDPOINTS), "advertised.listeners"),
        (settings(tmp_path, ADVERTISED), "CLUSTER_ID"),
        (replace(with_id(tmp_path, ADVERTISED), brokers=3), "--brokers"),
        (
            with_id(tmp_path, {**ADVERTISED, "inter.broker.listener.name": "INSIDE"}),
            "inter.broker.listener.name",
        ),
        (
            with_id(tmp_path, {**ADVERTISED, "security.inter.broker.protocol": "SSL"}),
            "security.inter.broker.protocol",
        ),
        (
            with_id(tmp_path, {**ADVERTISED, **BOTH, "inter.broker.listener.name": "PLAINTEXT"}),
            "security.inter.broker.protocol",
        ),
    ):
        problem = why_no_member(how)
        assert problem is not None
        assert named in problem


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, MECHANISM),
        ({MECHANISM: "GSSAPI"}, MECHANISM),
        ({MECHANISM: "SCRAM-SHA-512"}, MECHANISM),
        ({MECHANISM: "OAUTHBEARER"}, MECHANISM),
        ({MECHANISM: "PLAIN"}, JAAS),
        ({MECHANISM: "PLAIN", JAAS: SASL[JAAS].replace(";", ' username="admin";')}, JAAS),
        ({MECHANISM: "SCRAM-SHA-256"}, "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"),
        ({**BOTH, MECHANISM: "PLAIN"}, NAME),
    ],
)
def test_what_brokers_need_to_know_each_other_and_is_not_there_is_named(
    tmp_path: Path, properties: dict[str, str], named: str
) -> None:
    settings(tmp_path, {**SASL, **properties})  # without a cluster it does nothing
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, {**ENDPOINTS, **SASL, **properties})
    assert named in str(error.value)
    assert named in error.value.names
    assert "a-secret" not in str(error.value)


def test_a_login_is_that_of_the_listener_between_brokers(tmp_path: Path) -> None:
    module = SASL[JAAS].replace(";", ' username="admin" password="b-secret";')
    how = settings(tmp_path, {**ENDPOINTS, **SASL, JAAS: module, MECHANISM: "PLAIN"})
    assert how.security["SASL_PLAINTEXT"].login == Login("PLAIN", "admin", "b-secret")
    assert "b-secret" not in repr(how.security)


@pytest.mark.parametrize("name", ["", "listener.name.ssl."])
def test_a_way_to_make_sure_of_hosts_that_there_is_not_is_named(tmp_path: Path, name: str) -> None:
    authority = Identity.authority()
    stores = by_certificate(tmp_path / "stores", authority.sign("CN=b"), authority)
    name += "ssl.endpoint.identification.algorithm"
    properties = {"listeners": "SSL://127.0.0.1:0", NAME: "SSL", **stores, name: "LDAPS"}
    settings(tmp_path, properties)
    with pytest.raises(ConfigError, match=name):
        settings(tmp_path, {**ENDPOINTS, **properties})


async def test_a_certificate_that_its_own_truststore_does_not_trust_is_named(tmp_path: Path) -> None:
    authority, stranger = Identity.authority(), Identity.authority("CN=stranger")
    stores = by_certificate(tmp_path / "stores", authority.sign("CN=b"), stranger)
    properties = {"listeners": "SSL://127.0.0.1:0", NAME: "SSL", **stores}
    async with serving(tmp_path / "alone", properties):
        pass
    how = with_id(tmp_path, {**ENDPOINTS, **properties})
    cluster = EtcdCluster(how, ModelConnection(ModelStore()), ClusterKeys(CLUSTER_ID))
    await cluster.read_cluster()
    server = open_server(how, membership=cluster)
    with pytest.raises(StartFailed, match=r"ssl\.truststore\.location"):
        await server.listen()
    server.abandon()


async def test_an_etcd_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.cluster.daemon.etcd_status.CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(StartFailed, match=r"127\.0\.0\.1:1"):
        await join_cluster(with_id(tmp_path, ADVERTISED))


def test_a_signal_ends_a_start_that_waits_for_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.cluster.daemon.etcd_status.CONNECT_TIMEOUT_S", 10.0 * HANGS_S)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        how = with_id(tmp_path, {**ADVERTISED, "cluster.etcd.endpoints": endpoint})

        def stop_when_asked() -> None:
            with silent.accept()[0]:
                os.kill(os.getpid(), signal.SIGTERM)

        stopping = threading.Thread(target=stop_when_asked)
        stopping.start()
        assert run_daemon(how, []) == EXIT_SUCCESS
        stopping.join()


async def test_an_etcd_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def version(_: ModelConnection) -> str:
        return "3.3.27"

    monkeypatch.setattr(ModelConnection, "fetch_version", version)
    cluster = EtcdCluster(
        with_id(tmp_path, ADVERTISED), ModelConnection(ModelStore()), ClusterKeys(CLUSTER_ID)
    )
    with pytest.raises(StartFailed, match=r"3\.3\.27"):
        await cluster.read_cluster()


def found(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


async def store_of(cluster_id: str, fresh: Path, *, is_there: bool) -> ModelStore:
    """An engine that is empty, or that has the keys of a cluster from a daemon with a new directory."""
    store = ModelStore()
    if is_there:
        how = replace(settings(fresh, ENDPOINTS), cluster_id=cluster_id)
        await EtcdCluster(how, ModelConnection(store), ClusterKeys(cluster_id)).read_cluster()
    return store


async def refused(how: ServerSettings, store: ModelStore) -> str:
    """Return the reason of a rejected start and check that the engine is unchanged."""
    assert how.cluster_id is not None
    before = dict(store.map.entries)
    cluster = EtcdCluster(how, ModelConnection(store), ClusterKeys(how.cluster_id))
    with pytest.raises(StartFailed) as error:
        await opened(how, cluster)
    assert dict(store.map.entries) == before
    return str(error.value)


async def opened(how: ServerSettings, cluster: EtcdCluster) -> None:
    """As at a start."""
    await cluster.read_cluster()
    open_server(how, membership=cluster)


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "there"])
async def test_a_directory_that_was_used_without_a_cluster_is_refused_and_kept(
    tmp_path: Path, is_there: bool
) -> None:
    async with serving(tmp_path / "data") as server:
        cluster_id = server.directory.meta.cluster_id
    before = found(tmp_path)
    how = replace(settings(tmp_path / "data", ENDPOINTS), cluster_id=cluster_id)
    store = await store_of(cluster_id, tmp_path / "fresh", is_there=is_there)
    assert "without a cluster" in await refused(how, store)
    kept = {path for path in before if ".kafka_cleanshutdown" not in path.name}
    assert kept <= found(tmp_path)


async def test_a_wrong_cluster_id_is_named_for_a_directory_of_a_cluster(tmp_path: Path) -> None:
    how = with_id(tmp_path, ENDPOINTS)
    cluster = EtcdCluster(how, ModelConnection(ModelStore()), ClusterKeys(CLUSTER_ID))
    await cluster.read_cluster()
    server = open_server(how, membership=cluster)
    server.abandon()
    for another in (ModelStore(), await store_of(OTHER_ID, tmp_path / "fresh", is_there=True)):
        why = await refused(replace(how, cluster_id=OTHER_ID), another)
        assert CLUSTER_ID in why
        assert "CLUSTER_ID" in why


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "there"])
async def test_a_directory_of_another_cluster_is_refused(tmp_path: Path, is_there: bool) -> None:
    async with serving(tmp_path / "data"):
        pass
    store = await store_of(CLUSTER_ID, tmp_path / "fresh", is_there=is_there)
    assert "CLUSTER_ID" in await refused(with_id(tmp_path, ENDPOINTS), store)


async def test_a_daemon_whose_start_fails_half_way_leaves_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other brokers do not wait for the end of its session, which is five minutes here."""

    def fail(_: EtcdHealth) -> None:
        raise OSError("no thread")

    async with daemons(None, 1) as cluster:
        (first,) = cluster.by_id.values()
        brokers = first.cluster.ownership
        server, _ = await cluster.open(2)
        with monkeypatch.context() as patch:
            patch.setattr(EtcdHealth, "start", fail)
            with pytest.raises(OSError, match="no thread"):
                await server.listen()
        await eventually(lambda: 2 in brokers.brokers)
        await server.close()
        await eventually(lambda: 2 not in brokers.brokers)
