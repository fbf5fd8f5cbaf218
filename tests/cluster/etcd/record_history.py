"""The records of a stock producer in a replicated topic: every acknowledged record must be there once and in order.

Librdkafka retries unanswered batches with sequence numbers, so a duplicate or a gap is a defect of the brokers.
In a test it never gives up a record.
"""

import json
import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.librdkafka import wait_for_leaders

PARTITIONS = 3
PATIENT_S = 60


def create(bootstrap: str, topic: str, factor: int = 3) -> None:
    """Makes a topic, and waits until its partitions have leaders."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500})
    [made] = admin.create_topics([NewTopic(topic, PARTITIONS, factor)]).values()
    made.result(PATIENT_S)
    until_led(bootstrap, topic)


def until_led(bootstrap: str, topic: str, but: int = -1) -> None:
    """Until each partition has a leader, another than `but`."""
    wait_for_leaders(
        bootstrap,
        topic,
        lambda leaders: len(leaders) == PARTITIONS and not {-1, but} & set(leaders.values()),
    )


class RecordHistory:
    """A producer that writes numbers to every partition, one after the other, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, linger_ms: int = 5) -> None:
        self.acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.failed: list[str] = []
        self.longest_pause_s = 0.0
        self._last = time.monotonic()
        self._bootstrap = bootstrap
        self._topic = topic
        self._changed = threading.Condition()
        self._is_over = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        number = 0
        while not self._is_over:
            for partition in range(PARTITIONS):
                value = json.dumps(number)
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(PATIENT_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        with self._changed:
            if error is not None:
                self.failed.append(str(error))
            else:
                partition, value = message.partition(), message.value()
                assert partition is not None
                assert value is not None
                self.acknowledged[partition].append(int(json.loads(value)))
            now = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - self._last)
            self._last = now
            self._changed.notify_all()

    def until_more(self, records: int = 50) -> None:
        """Until so many more were acknowledged in every partition."""
        with self._changed:
            wanted = [len(numbers) + records for numbers in self.acknowledged]
            is_there = self._changed.wait_for(
                lambda: all(len(got) >= want for got, want in zip(self.acknowledged, wanted, strict=True)),
                PATIENT_S,
            )
            assert is_there, [len(numbers) for numbers in self.acknowledged]

    def stop(self) -> None:
        """Stop writing and wait for pending acknowledgements."""
        self._is_over = True
        self._thread.join()

    def check(self) -> None:
        """Check that the topic holds exactly the acknowledged records, in order."""
        assert not self.failed, self.failed[:3]
        assert all(self.acknowledged)
        found = read_all(self._bootstrap, self._topic)
        for partition, numbers in enumerate(found):
            assert numbers == list(range(len(numbers))), (partition, numbers[-10:])
            assert numbers == self.acknowledged[partition], (partition, len(numbers))


def reader_of(bootstrap: str, group: str, isolation_level: str, reset: str = "earliest") -> Consumer:
    """Create a consumer that reports partition ends. `reset` is its action on an offset out of range."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": reset,
            "reconnect.backoff.max.ms": 500,
        }
    )


def read_all(bootstrap: str, topic: str) -> list[list[int]]:
    """The numbers in each partition, to the end."""
    reader = reader_of(bootstrap, "reader", "read_uncommitted", "error")
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        until = time.monotonic() + PATIENT_S
        at_end: set[int] = set()
        while len(at_end) < PARTITIONS:
            assert time.monotonic() < until, [len(numbers) for numbers in found]
            message = reader.poll(0.1)
            if message is None:
                continue
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                at_end.add(partition)
                continue
            value = message.value()
            assert value is not None
            found[partition].append(int(json.loads(value)))
    finally:
        reader.close()
    return found
