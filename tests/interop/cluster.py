"""Three daemons on etcd, as tests of one broker see them; and the death of one of them."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cluster.etcd.conftest import Groupds, three_daemons
from tests.interop.broker import GROUP, READ_TIMEOUT_S, Broker, eventually
from tests.librdkafka import partition_leaders, retry

PROPERTIES = {
    "oracle.commits": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Cluster(Broker):
    """All of them; topics have their records in etcd."""

    replication_factor = 3

    def __init__(self, daemons: Groupds) -> None:
        """Create a cluster of running daemons."""
        super().__init__(daemons.bootstrap, None)
        self._daemons = daemons

    def is_alive(self) -> bool:
        """Whether each of them runs and answers."""
        return len(self._daemons.running) == len(self._daemons.ports) and all(
            daemon.is_alive() for daemon in self._daemons.running.values()
        )

    def number_of(self, address: str) -> int:
        """Which of them is at HOST:PORT."""
        return self._daemons.ports.index(int(address.rpartition(":")[2]))

    def address_of(self, number: int) -> str:
        """HOST:PORT of one of them."""
        return f"127.0.0.1:{self._daemons.ports[number]}"

    def next_coordinator(self, key: str, dead: int, key_type: int = GROUP) -> int:
        """Which of them coordinates a group, or a transactional id, once it is not the dead one any more."""
        return _other(
            f"{key} to have another coordinator",
            dead,
            lambda: self.number_of(self.coordinator(key, key_type)),
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """Which of them leads a partition, once there is one."""
        return self.next_leader(topic, partition, dead=-1)

    def next_leader(self, topic: str, partition: int, dead: int) -> int:
        """The same, once it is not the dead one any more."""
        administrator = AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 500})

        def leader() -> int:
            node_id = partition_leaders(administrator, topic)[partition]
            return node_id - 1 if node_id > 0 else dead

        return _other(f"{topic}-{partition} to have another leader", dead, leader)

    def replicas(self, topic: str) -> set[int]:
        """How many replicas the partitions of a topic have."""
        administrator = AdminClient({"bootstrap.servers": self.bootstrap})
        found = retry(lambda: administrator.list_topics(topic, READ_TIMEOUT_S)).topics[topic]
        return {len(partition.replicas) for partition in found.partitions.values()}

    @contextlib.contextmanager
    def without(self, number: int) -> Iterator[None]:
        """SIGKILL, and none of it until the context ends: then it is started again."""
        self._daemons.kill(number)
        try:
            yield
        finally:
            self._daemons.restore()

    def violations(self) -> dict[str, int]:
        """Return the violations of running daemons since their start."""
        found: Counter[str] = Counter()
        for daemon in self._daemons.running.values():
            found.update(daemon.violations())
        return dict(found)

    def report(self) -> str:
        """The end of the log of each."""
        return "\n".join(daemon.report() for daemon in self._daemons.running.values())


def cluster(directory: Path, **properties: str) -> Iterator[Cluster]:
    """Run three daemons of a cluster while the context lasts. `properties` have underscores for dots."""
    more = {name.replace("_", "."): value for name, value in properties.items()}
    with three_daemons(directory, properties=PROPERTIES | more) as daemons:
        yield Cluster(daemons)


def _other(what: str, dead: int, find: Callable[[], int]) -> int:
    found = dead

    def is_another() -> bool:
        nonlocal found
        found = find()
        return found != dead

    eventually(what, is_another)
    return found
