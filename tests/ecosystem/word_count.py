"""A word count of Kafka Streams: two instances, the lines that they read, and the counts that they write."""

import random
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.ecosystem.conftest import Start
from tests.ecosystem.program import STREAMS, prepared
from tests.interop.broker import Broker, eventually
from tests.librdkafka import end_offset

PARTITIONS: Final = 4
LINES: Final = 200
WRITE_TIMEOUT_S: Final = 60
WORDS: Final = ("offset", "group", "member", "leader", "generation", "lag", "topic", "commit")


class Counts:
    """The newest count of each word in the output topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        """Reads every partition from its start."""
        self.newest: dict[str, int] = {}
        self.fallen: list[tuple[str, int, int]] = []
        """Words whose count did not rise, with the previous and the new count."""
        at = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "reconnect.backoff.max.ms": 500}
        self._reader = Consumer(at | {"isolation.level": "read_committed"})
        self._reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def read(self) -> dict[str, int]:
        """Read the records written since the last call."""
        for message in self._reader.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            (count,) = struct.unpack(">q", message.value() or b"")
            word = (message.key() or b"").decode()
            if count <= self.newest.get(word, 0):
                self.fallen.append((word, self.newest[word], count))
            self.newest[word] = count
        return self.newest

    def wait(self, what: str, expected: Counter[str], report: Callable[[], str]) -> None:
        """Read until each word has its expected count; `report` describes the state on a timeout."""
        eventually(what, lambda: self.read() == expected, lambda: (self.newest, expected, report()))

    def ends(self, topic: str) -> dict[tuple[str, int], int]:
        """Return the end offsets of a topic's non-empty partitions."""
        ends = {
            (topic, partition): end_offset(self._reader, TopicPartition(topic, partition))
            for partition in range(PARTITIONS)
        }
        return {place: end for place, end in ends.items() if end}

    def close(self) -> None:
        """End reading."""
        self._reader.close()


TRANSACTION_TIMEOUT_MS = 10_000
"""A transaction of a dead instance stays open for so long. A busy machine, or a coordinator that takes over, must
finish a commit earlier: the commit of an aborted transaction is INVALID_TXN_STATE, as in Kafka, and ends the
instance."""


class WordCount:
    """The application: two instances that share the work."""

    def __init__(
        self,
        broker: Broker,
        start: Start,
        directory: Path,
        name: str,
        guarantee: str,
    ) -> None:
        """Create the topics of the application and start its instances.

        Args:
            broker: the broker or the cluster.
            start: starts a program.
            directory: for the state of the instances.
            name: the application id.
            guarantee: the processing guarantee.
        """
        self.name, self.lines, self.output = name, f"{name}-lines", f"{name}-output"
        self.repartition, self.changelog = f"{name}-counts-repartition", f"{name}-counts-changelog"
        self._broker = broker
        command = prepared(*STREAMS)
        for topic in (self.lines, self.output):
            broker.create_topic(topic, PARTITIONS)
        arguments = ["WordCount", broker.bootstrap, name, self.lines, self.output]
        how = [str(broker.replication_factor), guarantee, str(TRANSACTION_TIMEOUT_MS)]
        self.instances = [
            start([*command, *arguments, *how, str(directory / each)]) for each in ("first", "second")
        ]
        for instance in self.instances:
            instance.wait_printed("RUNNING", 60)
        eventually("both instances to be members", lambda: len(self.members()) == 2, self.report)

    def members(self) -> list[str]:
        """The client ids of the instances that are members of the group."""
        return [member["client_id"] for member in self._broker.describe(self.name)["members"]]

    def report(self) -> str:
        """The last output of each instance."""
        return "\n".join(instance.report() for instance in self.instances)

    def write_lines(self, seed: int) -> Counter[str]:
        """Write lines of words to every partition; return how often each word is in them."""
        words_of = random.Random(seed)
        written: Counter[str] = Counter()
        producer = Producer(
            {"bootstrap.servers": self._broker.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        for number in range(LINES):
            words = words_of.choices(WORDS, k=5)
            written.update(words)
            producer.produce(self.lines, partition=number % PARTITIONS, value=" ".join(words))
        assert producer.flush(WRITE_TIMEOUT_S) == 0
        return written
