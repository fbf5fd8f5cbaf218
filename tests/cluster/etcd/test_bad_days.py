"""Faults that operators meet with etcd, each with a real etcd.

Clients see Kafka's errors, one log line names the cause, and groupd recovers with all acknowledged data when the
cause is gone.
"""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.cluster.cluster_session import SessionState
from coordinator.cluster.daemon import etcd_status
from coordinator.cluster.daemon.etcd_cluster import join_cluster
from coordinator.cluster.etcd.etcd_store import EtcdCredentials, EtcdStore
from coordinator.cluster.key_value_store import Delete, Put, StoreFull, StoreTransaction, find_prefix_end
from coordinator.core.message_text import StartFailed
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import serving, settings
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, eventually
from tests.cluster.etcd.nodes import EtcdNodes
from tests.cluster.model_store import ModelConnection, ModelStore
from tests.interop.build import CHECKOUT
from tests.security.server.certificates import Identity

pytestmark = pytest.mark.timeout(400)
SESSION_MS = 2000
QUOTA_BYTES = 4 << 20


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdNodes]:
    """A node to which nothing happens; tests have prefixes of their own."""
    nodes = EtcdNodes(tmp_path_factory.mktemp("one"), 1)
    try:
        yield nodes
    finally:
        nodes.close()


def how_of(data: Path, nodes: EtcdNodes, **properties: str) -> ServerSettings:
    """Return the settings of a daemon. Property names have `_` for `.`."""
    texts = {
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        "broker.session.timeout.ms": str(SESSION_MS),
        "cluster.etcd.endpoints": nodes.endpoints,
        "cluster.etcd.prefix": f"/{data.parent.name}",
        **{name.replace("_", "."): text for name, text in properties.items()},
    }
    return replace(settings(data, texts, topics=[("orders", 1)]), cluster_id=CLUSTER_ID)


async def opened(how: ServerSettings) -> Server:
    """A daemon that listens. Raises StartFailed."""
    server = open_server(how, membership=await join_cluster(how))
    await server.listen()
    return server


@asynccontextmanager
async def daemon_of(how: ServerSettings) -> AsyncIterator[Daemon]:
    """One that is ready, and coordinates everything."""
    server = await opened(how)
    try:
        await asyncio.wait_for(server.ready.wait(), 60)
        daemon = Daemon(how.config.node_id, server, ModelConnection(ModelStore()))
        await eventually(lambda: server.data_plane.catalogue.find_topic("orders") is not None)
        async with daemon.client:
            yield daemon
    finally:
        await server.close()


async def until_committed(daemon: Daemon, offset: int) -> None:
    """Commits, as clients do: again and again."""
    async with asyncio.timeout(60):
        while True:
            if await daemon.commit(offset) == ErrorCode.NONE:
                return
            await asyncio.sleep(0.05)


async def fill(engine: EtcdStore) -> None:
    """Puts more than etcd takes."""
    for number in range(100):
        await engine.transact(StoreTransaction((), (Put(b"/junk/%d" % number, b"x" * 100_000),)))


async def make_room(nodes: EtcdNodes, engine: EtcdStore) -> None:
    """As operators do."""
    junk = Delete(b"/junk/", find_prefix_end(b"/junk/"))
    revision = (await engine.transact(StoreTransaction((), (junk,)))).revision
    nodes.ask("kv/compaction", revision=str(revision), physical=True)
    nodes.ask("maintenance/defragment")
    for alarm in nodes.ask("maintenance/alarm", action="GET")["alarms"]:
        nodes.ask("maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE", memberID=alarm["memberID"])


async def refused_start(how: ServerSettings, patience_s: float = 0) -> str:
    """Return the reason of a failed start. `patience_s` is the time to wait for etcd; 0 for the default."""
    with pytest.MonkeyPatch.context() as patch:
        if patience_s:
            patch.setattr(etcd_status, "CONNECT_TIMEOUT_S", patience_s)
        with pytest.raises(StartFailed) as error:
            await opened(how)
    return str(error.value)


async def test_an_etcd_that_is_full_is_named_and_all_goes_on_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(etcd_status, "PERIOD_S", 0.1)
    nodes = EtcdNodes(tmp_path, 1, "--quota-backend-bytes", str(QUOTA_BYTES))
    engine = EtcdStore(nodes.endpoints.split(","), 2000, EtcdCredentials())
    try:
        how = how_of(tmp_path / "data", nodes, cluster_etcd_quota_bytes=str(QUOTA_BYTES))
        async with daemon_of(how) as daemon:
            await until_committed(daemon, 1)
            with pytest.raises(StoreFull):
                await fill(engine)
            health = daemon.cluster.health
            await eventually(lambda: health.is_full)
            assert health.size_bytes > 0.7 * health.quota_bytes
            # A pending request fails at the latest when a session would have expired.
            assert await daemon.commit(2) == ErrorCode.NOT_COORDINATOR
            assert await daemon.committed() == ErrorCode.NOT_COORDINATOR
            answer = await daemon.ask(FindCoordinatorRequest(key="g"), 3)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert len([line for line in caplog.messages if "NOSPACE" in line]) == 1
            await make_room(nodes, engine)
            await eventually(lambda: daemon.coordinates("g"))
            assert await daemon.committed() == 1
            await until_committed(daemon, 3)
            assert await daemon.committed() == 3
            await eventually(lambda: not health.is_full)
    finally:
        await engine.close()
        nodes.close()


async def test_a_daemon_whose_etcd_comes_back_empty_keeps_what_it_has_on_its_disk(tmp_path: Path) -> None:
    nodes = EtcdNodes(tmp_path, 1)
    data = tmp_path / "data"
    try:
        async with daemon_of(how_of(data, nodes)) as daemon:
            assert await daemon.commit(5) == ErrorCode.NONE
            partition = daemon.server.runtime.find_partition("g")
            copy = data / str(partition.name) / f"{0:020}.log"
            size = copy.stat().st_size
            nodes.kill(0)
            shutil.rmtree(tmp_path / "etcd0")
            nodes.start(0)
            nodes.until_healthy()
            assert daemon.cluster.member is not None
            session = daemon.cluster.member.keeper.session
            await eventually(lambda: session.state is SessionState.REGISTERING)
            unknown = MetadataRequestTopic(topic_id=bytes(15) + b"x", name=None)
            await daemon.ask(MetadataRequest(topics=[unknown]), 12)
            assert await daemon.commit(6) == ErrorCode.NOT_COORDINATOR
            assert copy.stat().st_size == size > 0
            assert daemon.server.data_plane.catalogue.find_topic("orders") is not None
        # Nothing of it is in the way of an import.
        assert nodes.ask("kv/range", key="AA==", range_end="AA==").get("kvs", []) == []
    finally:
        nodes.close()


async def test_an_etcd_without_a_quorum_at_the_start_is_named(tmp_path: Path, etcd: EtcdNodes) -> None:
    how = how_of(tmp_path / "data", etcd)
    for number in (0, 1):
        etcd.pause(number)
    try:
        said = await refused_start(how, 1.5)
    finally:
        for number in (0, 1):
            etcd.resume(number)
        etcd.until_healthy()
    assert "cluster.etcd.endpoints" in said
    assert etcd.endpoints.split(",")[0] in said
    async with daemon_of(how) as daemon:
        await until_committed(daemon, 1)
        view = await daemon.server.membership.collect_etcd_view()
        assert view is not None
        assert sorted(node.is_leader for node in view.nodes) == [False, False, True]
        assert all(node.version.startswith("3.") and node.size_bytes for node in view.nodes)
        assert set(view.tokens) == set(view.epochs) == set(view.engine_bytes)
        assert 0 < view.sessions_left_s[1] <= SESSION_MS / 1000
        assert view.problem == ""


async def test_a_password_that_is_wrong_is_named_and_a_right_one_is_enough(tmp_path: Path) -> None:
    nodes = EtcdNodes(tmp_path, 1)
    try:
        for name in ("root", "groupd"):
            nodes.ask("auth/user/add", name=name, password=f"{name}'s")
            nodes.ask("auth/role/add", name=name)
            nodes.ask("auth/user/grant", user=name, role=name)
        # Base 64 of /mine/ and of the range end.
        mine = {"permType": "READWRITE", "key": "L21pbmUv", "range_end": "L21pbmUw"}
        nodes.ask("auth/role/grant", name="groupd", perm=mine)
        nodes.ask("auth/enable")
        user = {"cluster_etcd_username": "groupd", "cluster_etcd_prefix": "/mine"}
        for wrong in (
            {**user, "cluster_etcd_password": "wrong"},
            {**user, "cluster_etcd_password": "groupd's", "cluster_etcd_prefix": "/others"},
            {},
        ):
            said = await refused_start(how_of(tmp_path / "data", nodes, **wrong))
            assert "cluster.etcd.username" in said
        async with daemon_of(
            how_of(tmp_path / "data", nodes, **user, cluster_etcd_password="groupd's")
        ) as daemon:
            await until_committed(daemon, 1)
            await daemon.cluster.health.check_nodes()
            assert not daemon.cluster.health.nodes[0].problem
    finally:
        nodes.close()


def certificates(directory: Path) -> dict[str, str]:
    """Return the paths of certificates and trust stores for etcd and the daemons, by name."""
    authority, other = Identity.authority(), Identity.authority("CN=other")
    server, client = authority.sign("CN=etcd", ("127.0.0.1",)), authority.sign("CN=groupd")
    texts = {
        "ca": authority.certificate_pem,
        "other": other.certificate_pem,
        "server": server.chain_pem,
        "server.key": server.key_pem(),
        "client": client.chain_pem,
        "client.key": client.key_pem(),
    }
    paths = {name: str(directory / f"{name}.pem") for name in texts}
    for name, text in texts.items():
        Path(paths[name]).write_text(text)
    return paths


async def test_certificates_that_do_not_fit_are_named(tmp_path: Path) -> None:
    paths = certificates(tmp_path)
    nodes = EtcdNodes(
        tmp_path,
        1,
        *("--client-cert-auth", "--trusted-ca-file", paths["ca"]),
        *("--cert-file", paths["server"], "--key-file", paths["server.key"]),
        scheme="https",
    )
    try:
        shown = {"cluster_etcd_cert": paths["client"], "cluster_etcd_key": paths["client.key"]}
        wrong: list[dict[str, str]] = [
            {"cluster_etcd_ca": paths["other"], **shown},
            {"cluster_etcd_ca": paths["ca"]},
            {},
        ]
        for properties in wrong:
            said = await refused_start(how_of(tmp_path / "data", nodes, **properties), 1.0)
            assert "cluster.etcd.endpoints" in said
        nowhere = str(tmp_path / "nowhere")
        said = await refused_start(how_of(tmp_path / "data", nodes, cluster_etcd_ca=nowhere))
        assert "cluster.etcd.ca" in said
        assert nowhere in said
        right = {"cluster_etcd_ca": paths["ca"], **shown}
        async with daemon_of(how_of(tmp_path / "data", nodes, **right)) as daemon:
            await until_committed(daemon, 1)
    finally:
        nodes.close()


async def test_a_daemon_without_advertised_listeners_is_refused(tmp_path: Path, one: EtcdNodes) -> None:
    how = how_of(tmp_path / "data", one)
    listeners = [replace(each, advertised=None) for each in how.listeners]
    assert "advertised.listeners" in await refused_start(replace(how, listeners=listeners))


async def test_the_second_of_two_daemons_with_one_id_waits_and_says_so(
    tmp_path: Path, one: EtcdNodes, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon_of(how_of(tmp_path / "1", one, cluster_etcd_prefix="/twins")) as first:
        second = await opened(how_of(tmp_path / "2", one, cluster_etcd_prefix="/twins"))
        try:
            await eventually(lambda: any("node.id" in line for line in caplog.messages))
            await until_committed(first, 7)
            assert not second.ready.is_set()
            # As after SIGKILL: its session has to expire.
            assert first.cluster.member is not None
            first.cluster.member.abandon()
            await asyncio.wait_for(second.ready.wait(), 60)
            daemon = Daemon(1, second, ModelConnection(ModelStore()))
            async with daemon.client:
                assert await daemon.committed() == 7
        finally:
            await second.close()


async def test_a_directory_of_no_cluster_or_of_another_one_is_refused(tmp_path: Path, one: EtcdNodes) -> None:
    for cluster_id, said in ((CLUSTER_ID, "without a cluster"), ("B" * 22, "CLUSTER_ID")):
        data = tmp_path / cluster_id
        how = replace(settings(data), cluster_id=cluster_id)
        server = open_server(how)
        await server.close()
        assert said in await refused_start(how_of(data, one))


async def test_the_command_imports_a_directory(tmp_path: Path, one: EtcdNodes) -> None:
    data = tmp_path / "data"
    async with serving(data) as server:
        cluster_id = server.directory.meta.cluster_id
        daemon = Daemon(1, server, ModelConnection(ModelStore()))
        async with daemon.client:
            assert await daemon.commit(5) == ErrorCode.NONE
    how = replace(how_of(data, one), cluster_id=cluster_id)

    def imported(*options: str) -> subprocess.CompletedProcess[str]:
        prefix = f"cluster.etcd.prefix={how.config.cluster_etcd_prefix}"
        return subprocess.run(
            [
                *(sys.executable, "-m", "coordinator", "cluster", "import", "--data-dir", str(data)),
                *("-o", f"cluster.etcd.endpoints={one.endpoints}", "-o", prefix, *options),
            ],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )

    wrong = await asyncio.to_thread(imported, "--node-id", "2")
    assert (wrong.returncode, "node.id" in wrong.stderr) == (2, True)
    done = await asyncio.to_thread(imported)
    assert (done.returncode, cluster_id in done.stdout) == (0, True), done.stderr
    async with daemon_of(how) as daemon:
        assert await daemon.committed() == 5
