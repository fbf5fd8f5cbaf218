"""The broker under test, and the requests of the tests to it as administrators.

By default that is a groupd process of the tests' own. With GROUPD_TEST_BOOTSTRAP=HOST:PORT the same tests run
against any broker, such as an Apache Kafka (start it with group.min.session.timeout.ms=100,
group.initial.rebalance.delay.ms=0, group.consumer.min.session.timeout.ms=100 and
group.consumer.min.heartbeat.interval.ms=100); GROUPD_TEST_RESTART then names a program that restarts it, called
with TERM or KILL, which returns once the broker listens again.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.daemon import Daemon
from tests.kafka_log.connection import Connection
from tests.librdkafka import partition_leaders, retry

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a deprecated function when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError

EXTERNAL = os.environ.get("GROUPD_TEST_BOOTSTRAP", "")
RESTART = os.environ.get("GROUPD_TEST_RESTART", "")
REQUEST_TIMEOUT_MS = 10_000
READ_TIMEOUT_S = 60
POLL_INTERVAL_S = 0.05
GROUP, TRANSACTION = 0, 1
"""The kinds of coordinators."""


class Broker:
    """One broker: its address and an administrator's view of it."""

    replication_factor = 1
    """Of the topics that a test makes."""

    def __init__(self, bootstrap: str, daemon: Daemon | None) -> None:
        """Connect to the broker; `daemon` is None for one that is not ours."""
        self.bootstrap = bootstrap
        self._daemon = daemon

    @contextlib.contextmanager
    def _administrator(self) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            yield client
        finally:
            client.close()

    @property
    def is_groupd(self) -> bool:
        """Whether this is a groupd that the tests started."""
        return self._daemon is not None

    @property
    def http(self) -> str:
        """Where a groupd of the tests has its HTTP, HOST:PORT; "" for another broker."""
        return "" if self._daemon is None else self._daemon.http

    def is_alive(self) -> bool:
        """Return whether the broker runs. An external broker counts as running."""
        return self._daemon is None or self._daemon.is_alive()

    @property
    def can_restart(self) -> bool:
        """Whether `restart` works."""
        return self._daemon is not None or bool(RESTART)

    def restart(self, how: signal.Signals) -> None:
        """Stop the broker by SIGTERM or SIGKILL and start it again, same address, same data."""
        if self._daemon is not None:
            self._daemon.restart(how)
        else:
            subprocess.run([RESTART, how.name.removeprefix("SIG")], check=True, timeout=90)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until its partitions have leaders."""
        with self._administrator() as administrator:
            wanted = {name: {"num_partitions": partitions, "replication_factor": self.replication_factor}}
            administrator.create_topics(wanted, timeout_ms=REQUEST_TIMEOUT_MS)

            def known() -> bool:
                (seen,) = administrator.describe_topics([name])
                leaders = [partition["leader_id"] for partition in seen["partitions"]]
                return len(leaders) == partitions and min(leaders) >= 0

            eventually(f"topic {name} to be known", known)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's partition count."""
        with self._administrator() as administrator:
            administrator.create_partitions({name: partitions}, timeout_ms=REQUEST_TIMEOUT_MS)

    def configure_group(self, name: str, configs: dict[str, str]) -> None:
        """Give a group configs of its own."""
        with self._administrator() as administrator:
            administrator.alter_configs([ConfigResource(ConfigResourceType.GROUP, name, configs)])

    def produce(self, topic: str, partitions: int, each: int) -> None:
        """Write `each` records to every partition and wait for the acknowledgements."""
        failures: list[object] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "message.timeout.ms": 60000}
        )
        for partition in range(partitions):
            for number in range(each):
                producer.produce(
                    topic,
                    partition=partition,
                    value=f"{topic}-{partition}-{number}",
                    on_delivery=lambda error, _message: failures.append(error) if error else None,
                )
        left = producer.flush(90)
        assert left == 0, f"{left} records were not acknowledged: {failures[:3]}"
        assert not failures, failures[:3]

    def read_all(self, topic: str, count: int) -> list[str]:
        """Return the values of a topic's first `count` records, read without a group."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader-without-group"})
        reader.assign([TopicPartition(topic, partition, 0) for partition in partition_leaders(reader, topic)])
        deadline = time.monotonic() + READ_TIMEOUT_S
        values: list[str] = []
        try:
            while len(values) < count and time.monotonic() < deadline:
                message = reader.poll(0.2)
                if message is None:
                    continue
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
        finally:
            reader.close()
        return values

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, nothing while its coordinator cannot answer."""
        with self._administrator() as administrator:
            try:
                found = administrator.list_group_offsets({group: None})[group]
            except KafkaError:
                return {}
            return {(p.topic, p.partition): at.offset for p, at in found.items() if at.offset >= 0}

    def wait_committed(self, group: str, expected: dict[tuple[str, int], int]) -> None:
        """Wait until the group's committed offsets are exactly these."""
        eventually(
            f"{group} to commit {sorted(expected.items())}; it has",
            lambda: self.committed(group) == expected,
            lambda: sorted(self.committed(group).items()),
        )

    def coordinator(self, key: str, key_type: int = GROUP) -> str:
        """Return HOST:PORT of the coordinator of a group, or of a transactional id."""
        found: list[str] = []

        def is_known() -> bool:
            for address in self.bootstrap.split(","):
                with contextlib.suppress(OSError), Connection(address) as connection:
                    answer = connection.call(FindCoordinatorRequest(key=key, key_type=key_type), 3)
                    if not answer.error_code:
                        found.append(f"{answer.host}:{answer.port}")
                        return True
            return False

        eventually(f"{key} to have a coordinator", is_known)
        return found[0]

    def describe(self, group: str) -> dict[str, Any]:
        """Return kafka-python's description of a group."""
        with self._administrator() as administrator:
            described: dict[str, Any] = administrator.describe_groups([group])[group]
            return described

    def listed(self, group: str) -> tuple[str, str]:
        """Return the type and the state that a list of all groups has for one; ("", "") where it is not there."""
        with self._administrator() as administrator:
            for found in administrator.list_groups():
                if found["group_id"] == group:
                    return found["group_type"].lower(), found["group_state"]
        return "", ""

    def instance_ids(self, group: str) -> set[str]:
        """Return the instance ids of a group's members, of either protocol."""
        administrator = AdminClient({"bootstrap.servers": self.bootstrap})
        described = retry(
            lambda: administrator.describe_consumer_groups([group])[group].result(READ_TIMEOUT_S)
        )
        return {member.group_instance_id for member in described.members}

    def violations(self) -> dict[str, int]:
        """How often each oracle of a groupd has found something; nothing for a broker that has none."""
        return {} if self._daemon is None else self._daemon.violations()

    def report(self) -> str:
        """Return the end of the broker's log where there is one."""
        return "" if self._daemon is None else self._daemon.report()


def eventually(
    what: str,
    condition: Callable[[], bool],
    state: Callable[[], object] = lambda: "",
    timeout_s: float = 60.0,
) -> None:
    """Ask the broker again and again until `condition` holds; AssertionError with `state` otherwise."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {what} {state()}")
        pause.wait(POLL_INTERVAL_S)
