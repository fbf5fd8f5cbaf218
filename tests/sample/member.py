"""One consumer in a thread."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

POLL_S: Final = 0.1

Whim = Callable[[Consumer, float], None]
"""Called again and again with the consumer and the seconds since it started."""


def no_whim(_consumer: Consumer, _seconds: float) -> None:
    """Does as consumers do."""


@dataclass(frozen=True)
class Temper:
    """How a member behaves: messages read a second at most, seconds between commits, anything special."""

    rate: int = 100_000
    commit_s: float = 1.0
    whim: Whim = no_whim


class Member:
    """Consumes `topics` as a member of `group` until stopped; commits its position, moved or not."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: list[str],
        name: str,
        temper: Temper,
        instance_id: str | None = None,
        *,
        protocol: str = "classic",
    ) -> None:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 50,
            "queued.min.messages": 1000,
        }
        if protocol == "classic":  # for others the coordinator says it
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self._settings = settings
        self._topics = topics
        self._temper = temper
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._consume, name=f"{group} {name}")
        self._thread.start()

    def stop(self) -> None:
        """Leaves the group, a static member without saying so, and returns when it has."""
        self._stop.set()
        self._thread.join()

    def _consume(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics)
        began = committed = time.monotonic()
        try:
            while not self._stop.is_set():
                most = max(1, int(self._temper.rate * POLL_S))
                consumer.consume(num_messages=min(most, 1000), timeout=POLL_S)
                if most < 1000:
                    self._stop.wait(POLL_S)
                self._temper.whim(consumer, time.monotonic() - began)
                if time.monotonic() - committed >= self._temper.commit_s:
                    commit(consumer)
                    committed = time.monotonic()
            commit(consumer)
        finally:
            consumer.close()


def commit(consumer: Consumer) -> None:
    """Commit the position in every partition. The coordinator refuses a commit during a rebalance, and the next
    commit replaces it."""
    positions = [found for found in consumer.position(consumer.assignment()) if found.offset >= 0]
    if positions:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException:
            return


def reset(bootstrap: str, group: str, topic: str, offsets: list[int]) -> None:
    """Sets a group's offsets from outside, as an administrator does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "administrator"})
    try:
        targets = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
        consumer.commit(offsets=targets, asynchronous=False)
    finally:
        consumer.close()
