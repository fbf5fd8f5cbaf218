"""Three daemons on an etcd of three nodes; and engines that have to keep one contract."""

import itertools
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import pytest

from coordinator.cluster.etcd.etcd_store import EtcdCredentials, EtcdStore
from coordinator.cluster.key_value_store import KeyValueStore
from protocol.messages.metadata import MetadataRequest
from tests.cluster.etcd.link import Link
from tests.cluster.etcd.nodes import EtcdNodes
from tests.cluster.model_store import ModelConnection, ModelStore
from tests.free_ports import free_ports
from tests.interop.broker import eventually
from tests.interop.daemon import Daemon
from tests.kafka_log.connection import Connection

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SESSION_MS = 2000


class Groupds:
    """The daemons of a cluster, each with a port of its own."""

    def __init__(
        self,
        directory: Path,
        etcd: EtcdNodes,
        count: int,
        *,
        are_linked: bool = False,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Configure the daemons.

        With links, a test can cut each daemon from its clients or from etcd. The properties apply to all
        daemons; with properties of a listener BROKERS, that listener is opened as well.
        """
        self.etcd = etcd
        self._between = free_ports(count) if "inter.broker.listener.name" in properties else []
        self._options = [part for each in properties.items() for part in ("-o", "=".join(each))]
        self._ports = free_ports(count)
        self.front = [Link(port) for port in self._ports] if are_linked else []
        """From clients, one to each daemon."""
        self.behind = [[Link(port) for port in etcd.ports] for _ in self.front]
        """From each daemon, one to each node of etcd."""
        self.ports = [link.port for link in self.front] or self._ports
        self._directory = directory
        self._daemons: dict[int, Daemon] = {}
        for number in range(count):
            self.start(number)

    @property
    def bootstrap(self) -> str:
        """For clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def running(self) -> dict[int, Daemon]:
        """By their numbers."""
        return dict(self._daemons)

    def start(self, number: int) -> None:
        """Starts one, or starts it again."""
        address = f"PLAINTEXT://127.0.0.1:{self.ports[number]}"
        between = f",BROKERS://127.0.0.1:{self._between[number]}" if self._between else ""
        ports = [link.port for link in self.behind[number]] if self.behind else self.etcd.ports
        endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._daemons[number] = Daemon(
            str(self._directory / f"data{number}"),
            *("--advertise", address + between, "--topic", "orders:3"),
            *("-o", f"node.id={number + 1}", "-o", f"cluster.etcd.endpoints={endpoints}"),
            *("-o", f"broker.session.timeout.ms={SESSION_MS}", "-o", "cluster.move.delay.ms=0"),
            *("-o", "offsets.topic.num.partitions=5", *self._options),
            listen=f"PLAINTEXT://127.0.0.1:{self._ports[number]}{between}",
            environment={"CLUSTER_ID": CLUSTER_ID},
        )

    def http(self, number: int) -> str:
        """Where the HTTP port of one is."""
        return self._daemons[number].http

    def signal(self, number: int, what: signal.Signals) -> None:
        """Sends one a signal."""
        self._daemons[number].send(what)

    def kill(self, number: int) -> None:
        """With signal 9."""
        self._daemons.pop(number).kill()

    def stop(self, number: int) -> None:
        """In order."""
        self._daemons.pop(number).stop()

    def restore(self) -> None:
        """Bring back daemons and etcd after a test: start killed processes, resume paused ones, mend the links.

        Return when each daemon has all the others in its metadata, so that it can place partitions on them.
        """
        for link in itertools.chain(self.front, *self.behind):
            link.mend()
        self.etcd.restore()
        for number in range(len(self.ports)):
            if number in self._daemons:
                self.signal(number, signal.SIGCONT)
                if self._daemons[number].is_alive():
                    continue
                self.kill(number)
            self.start(number)
        eventually("each daemon to know of the others", self._is_whole, self._known_brokers)

    def _is_whole(self) -> bool:
        return set(self._known_brokers()) == {len(self.ports)}

    def _known_brokers(self) -> list[int]:
        """Return the number of brokers in each daemon's metadata, 0 for a daemon that does not answer."""
        counts = []
        for port in self.ports:
            try:
                with Connection(f"127.0.0.1:{port}") as connection:
                    counts.append(len(connection.call(MetadataRequest(topics=[]), 9).brokers))
            except OSError:
                counts.append(0)
        return counts

    def close(self) -> None:
        """Kills all."""
        for number in list(self._daemons):
            self.kill(number)
        for link in itertools.chain(self.front, *self.behind):
            link.close()


@contextmanager
def three_daemons(
    directory: Path, *, are_linked: bool = False, properties: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Groupds]:
    """On an etcd of three nodes, for as long as the context lasts."""
    etcd = EtcdNodes(directory, 3)
    try:
        daemons = Groupds(directory, etcd, 3, are_linked=are_linked, properties=properties)
        try:
            daemons.restore()
            yield daemons
        finally:
            daemons.close()
    finally:
        etcd.close()


@pytest.fixture(scope="module")
def shared_groupds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groupds]:
    """Three daemons, which a test may leave killed or paused."""
    with three_daemons(tmp_path_factory.mktemp("cluster")) as daemons:
        yield daemons


@pytest.fixture
def groupds(shared_groupds: Groupds) -> Groupds:
    """The daemons of all the tests of a file, all of them up at the start of each test."""
    shared_groupds.restore()
    return shared_groupds


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdNodes]:
    """An etcd of three nodes that nothing happens to."""
    nodes = EtcdNodes(tmp_path_factory.mktemp("etcd"), 3)
    try:
        yield nodes
    finally:
        nodes.close()


@pytest.fixture(params=["model", "etcd"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[KeyValueStore]:
    """What has to keep the contract: the model, and etcd."""
    if request.param == "model":
        yield ModelConnection(ModelStore())
        return
    nodes: EtcdNodes = request.getfixturevalue("etcd")
    opened = EtcdStore(nodes.endpoints.split(","), 2000, EtcdCredentials())
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def root() -> bytes:
    """Keys of one test."""
    return f"/{uuid4().hex}/".encode()
