"""Kafka Connect, distributed, on groupd: two workers share the work and one is killed."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.ecosystem.conftest import Start
from tests.ecosystem.copies import Copies
from tests.ecosystem.worker import two_workers
from tests.interop.broker import Broker, eventually

# The leader of the workers joins again for every connector, and each time that their configuration changes.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(400), pytest.mark.violates("flapping")]
LANES = 2
LONG_MS = 900_000
"""No transaction ends because its time is over."""


def test_every_line_is_copied_though_a_worker_dies(broker: Broker, start: Start, tmp_path: Path) -> None:
    """A file goes into a topic and out into another file; the tasks of a killed worker move."""
    copies = Copies(broker, start, tmp_path)
    copies.copy("every line")
    copies.lose_a_worker()
    copies.check()


class Reader:
    """Reads the records of a topic, all of them or the committed ones."""

    def __init__(self, broker: Broker, topic: str, isolation_level: str) -> None:
        """Reads every partition from its start."""
        self.numbers: list[list[int]] = [[] for _ in range(LANES)]
        at = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody"}
        self._consumer = Consumer(at | {"isolation.level": isolation_level})
        self._consumer.assign([TopicPartition(topic, lane, 0) for lane in range(LANES)])

    def counts(self) -> list[int]:
        """How many numbers there are by now, by lane."""
        for message in self._consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            lane = message.partition()
            assert lane is not None
            self.numbers[lane].append(int(message.value() or b""))
        return [len(numbers) for numbers in self.numbers]

    def close(self) -> None:
        """End reading."""
        self._consumer.close()


def test_exactly_once_no_number_is_lost_or_comes_twice(broker: Broker, start: Start, tmp_path: Path) -> None:
    """A worker is killed amid the transaction of its task, and fewer tasks follow.

    So no new task takes over its transaction: the leader fences it, and the only task resumes from the committed
    offset.
    """
    topic, fewest, most = "numbers", 250, 1000
    broker.create_topic(topic, LANES)
    workers = two_workers(start, broker, tmp_path, exactly_once_source_support="enabled")
    config = {
        "connector.class": "Numbers",
        "topic": topic,
        "limit": str(fewest),
        "tasks.max": str(LANES),
        "exactly.once.support": "required",
        "transaction.boundary": "connector",
        "producer.override.transaction.timeout.ms": str(LONG_MS),
    }
    everything = Reader(broker, topic, "read_uncommitted")
    committed = Reader(broker, topic, "read_committed")
    try:
        workers[0].create("numbers", config)
        eventually("all numbers", lambda: everything.counts() == [fewest] * LANES, workers[0].report)
        eventually("those of whole transactions", lambda: committed.counts() == [200, 200], workers[0].report)
        homes = workers[0].tasks("numbers")
        assert set(homes.values()) == {worker.id for worker in workers}, homes
        (victim,) = [worker for worker in workers if worker.id == homes[LANES - 1]]
        (survivor,) = [worker for worker in workers if worker is not victim]
        victim.kill()
        survivor.create("numbers", config | {"limit": str(most), "tasks.max": "1"})
        eventually("all that is committed", lambda: committed.counts() == [most] * LANES, survivor.report)
        assert committed.numbers == [list(range(most))] * LANES
        assert survivor.tasks("numbers") == {0: survivor.id}
        eventually(
            "what was given up", lambda: min(everything.counts()) >= most + fewest - 200, survivor.report
        )
    finally:
        everything.close()
        committed.close()
