"""A Kafka Streams application counts words on groupd and loses an instance."""

import random
import struct
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.ecosystem.conftest import Start
from tests.ecosystem.program import STREAMS, prepared
from tests.interop.broker import Broker, eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
PARTITIONS = 4
LINES = 200
WORDS = ("offset", "group", "member", "leader", "generation", "lag", "topic", "commit")


class Counts:
    """The newest count of each word in the output topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        """Reads every partition from its start."""
        self.newest: dict[str, int] = {}
        self.fallen: list[tuple[str, int, int]] = []
        """Words whose count did not rise, with the count before and the new one."""
        at = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody"}
        self._reader = Consumer(at | {"isolation.level": "read_committed"})
        self._reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def read(self) -> dict[str, int]:
        """Take in what has been written since."""
        for message in self._reader.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            (count,) = struct.unpack(">q", message.value() or b"")
            word = (message.key() or b"").decode()
            if count <= self.newest.get(word, 0):
                self.fallen.append((word, self.newest[word], count))
            self.newest[word] = count
        return self.newest

    def ends(self, topic: str) -> dict[tuple[str, int], int]:
        """Where a topic's partitions end, those that hold nothing left out."""
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        found = {
            (topic, at.partition): self._reader.get_watermark_offsets(at, timeout=10)[1] for at in places
        }
        return {place: end for place, end in found.items() if end}

    def close(self) -> None:
        """End reading."""
        self._reader.close()


def _write_lines(broker: Broker, topic: str, seed: int) -> Counter[str]:
    """Write lines of words to every partition; return how often each word is in them."""
    words_of = random.Random(seed)
    written: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(LINES):
        words = words_of.choices(WORDS, k=5)
        written.update(words)
        producer.produce(topic, partition=number % PARTITIONS, value=" ".join(words))
    assert producer.flush(20) == 0
    return written


def test_a_word_count_survives_an_instance(broker: Broker, start: Start, tmp_path: Path) -> None:
    """Two instances share the work, one is killed, the other takes over with its state: the counts are right."""
    command = prepared(*STREAMS)
    application, lines, output = "word-count", "lines", "counts"
    for topic in (lines, output):
        broker.create_topic(topic, PARTITIONS)
    expected = _write_lines(broker, lines, 1)
    arguments = ["WordCount", broker.bootstrap, application, lines, output]
    instances = [
        start([*command, *arguments, str(tmp_path / name), "at_least_once"]) for name in ("first", "second")
    ]
    for instance in instances:
        instance.wait_printed("RUNNING", 60)
    eventually(
        "both instances to be members",
        lambda: len(broker.describe(application)["members"]) == 2,
        instances[0].report,
    )
    repartition = f"{application}-counts-repartition"
    counts = Counts(broker, output)
    try:
        eventually("the counts", lambda: counts.read() == expected, lambda: counts.newest)
        # At least once: only what is committed is not counted again after a kill.
        broker.wait_committed(application, counts.ends(lines) | counts.ends(repartition))
        instances[0].kill()
        expected += _write_lines(broker, lines, 2)
        eventually("the counts after the kill", lambda: counts.read() == expected, lambda: counts.newest)
    finally:
        counts.close()
    (survivor,) = broker.describe(application)["members"]
    assert survivor["client_id"].startswith(application)


def test_exactly_once_no_count_comes_twice(broker: Broker, start: Start, tmp_path: Path) -> None:
    """With exactly_once_v2 an instance is killed amid its work: each word's committed counts go up by what came."""
    command = prepared(*STREAMS)
    application, lines, output = "word-count-once", "lines-once", "counts-once"
    for topic in (lines, output):
        broker.create_topic(topic, PARTITIONS)
    arguments = ["WordCount", broker.bootstrap, application, lines, output]
    instances = [
        start([*command, *arguments, str(tmp_path / name), "exactly_once_v2"]) for name in ("first", "second")
    ]
    for instance in instances:
        instance.wait_printed("RUNNING", 60)
    eventually(
        "both instances to be members",
        lambda: len(broker.describe(application)["members"]) == 2,
        instances[0].report,
    )
    counts = Counts(broker, output)
    try:
        expected = _write_lines(broker, lines, 1)
        eventually("the first counts", lambda: bool(counts.read()))
        expected += _write_lines(broker, lines, 2)
        instances[0].kill()
        expected += _write_lines(broker, lines, 3)
        eventually("the counts after the kill", lambda: counts.read() == expected, lambda: counts.newest)
        assert not counts.fallen, counts.fallen
    finally:
        counts.close()
