"""The broker under test, and what the tests ask of it as administrators.

By default that is a groupd process of the tests' own. With GROUPD_TEST_BOOTSTRAP=HOST:PORT the same tests run
against any broker, such as an Apache Kafka (start it with group.min.session.timeout.ms=100 and
group.initial.rebalance.delay.ms=0); GROUPD_TEST_RESTART then names a program that restarts it, called with
TERM or KILL, which returns once the broker listens again.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.daemon import Daemon

EXTERNAL = os.environ.get("GROUPD_TEST_BOOTSTRAP", "")
RESTART = os.environ.get("GROUPD_TEST_RESTART", "")
REQUEST_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.05


class Broker:
    """One broker: its address and an administrator's view of it."""

    def __init__(self, bootstrap: str, daemon: Daemon | None) -> None:
        """Connect to the broker; `daemon` is None for one that is not ours."""
        self.bootstrap = bootstrap
        self._daemon = daemon
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200})

    @property
    def is_groupd(self) -> bool:
        """Whether this is a groupd that the tests started."""
        return self._daemon is not None

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
        """Create a topic and wait until it can be written to."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(REQUEST_TIMEOUT_S)

        def known() -> bool:
            found = self._admin.list_topics(name, REQUEST_TIMEOUT_S).topics.get(name)
            leaders = [p.leader for p in found.partitions.values()] if found and found.error is None else []
            return len(leaders) == partitions and min(leaders) >= 0

        eventually(f"topic {name} to be known", known)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's partition count."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(REQUEST_TIMEOUT_S)

    def produce(self, topic: str, partitions: int, each: int) -> None:
        """Write `each` records to every partition and wait for the acknowledgements."""
        failures: list[object] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "message.timeout.ms": 15000}
        )
        for partition in range(partitions):
            for number in range(each):
                producer.produce(
                    topic,
                    partition=partition,
                    value=f"{topic}-{partition}-{number}",
                    on_delivery=lambda error, _message: failures.append(error) if error else None,
                )
        left = producer.flush(20)
        assert left == 0, f"{left} records were not acknowledged: {failures[:3]}"
        assert not failures, failures[:3]

    def read_all(self, topic: str, count: int) -> list[str]:
        """Return the values of a topic's first `count` records, read without a group."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader-without-group"})
        partitions = reader.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic].partitions
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        deadline = time.monotonic() + 15
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
        """Return the committed offsets of a group."""
        asked = [ConsumerGroupTopicPartitions(group)]
        try:
            answer = self._admin.list_consumer_group_offsets(asked)[group].result(REQUEST_TIMEOUT_S)
        except KafkaException:
            return {}
        return {(p.topic, p.partition): p.offset for p in answer.topic_partitions or [] if p.offset >= 0}

    def wait_committed(self, group: str, expected: dict[tuple[str, int], int]) -> None:
        """Wait until the group's committed offsets are exactly these."""
        eventually(
            f"{group} to commit {sorted(expected.items())}; it has",
            lambda: self.committed(group) == expected,
            lambda: sorted(self.committed(group).items()),
        )

    def describe(self, group: str) -> Any:
        """Return confluent-kafka's description of a group."""
        return self._admin.describe_consumer_groups([group])[group].result(REQUEST_TIMEOUT_S)

    def report(self) -> str:
        """Return the end of the broker's log where there is one."""
        return "" if self._daemon is None else self._daemon.report()


def eventually(
    what: str,
    condition: Callable[[], bool],
    state: Callable[[], object] = lambda: "",
    timeout_s: float = 20.0,
) -> None:
    """Ask the broker again and again until `condition` holds; AssertionError with `state` otherwise."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {what} {state()}")
        pause.wait(POLL_INTERVAL_S)
