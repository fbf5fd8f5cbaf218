"""librdkafka, by confluent-kafka, visits a secured broker."""

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.interop.clients.visits import STEP_S, Cell, run


class Librdkafka:
    def __init__(self) -> None:
        """Start with no errors."""
        self._told: defaultdict[str, list[KafkaError]] = defaultdict(list)

    def _settings(self, cell: Cell) -> dict[str, Any]:
        names = {
            "bootstrap.servers": "bootstrap",
            "security.protocol": "protocol",
            "sasl.mechanism": "mechanism",
            "sasl.username": "user",
            "sasl.password": "password",
            "ssl.ca.location": "authority",
            "ssl.certificate.location": "certificate",
            "ssl.key.location": "key",
        }
        settings = {name: cell[key] for name, key in names.items() if key in cell}
        if "SSL" not in cell["protocol"]:
            settings.pop("ssl.ca.location")
        return {**settings, "log_level": 0, "error_cb": self._told[cell["name"]].append}

    def login(self, cell: Cell) -> None:
        """Log in. Only a callback reports a failed authentication, and requests continue to wait."""
        admin = AdminClient(self._settings(cell))
        deadline = time.monotonic() + STEP_S
        while time.monotonic() < deadline:
            try:
                admin.list_topics(cell["topic"], timeout=0.5)
            except KafkaException:
                admin.poll(0)
                if told := [e for e in self._told[cell["name"]] if e.code() != KafkaError._ALL_BROKERS_DOWN]:
                    raise KafkaException(told[0]) from None
            else:
                return
        raise TimeoutError("neither let in nor refused")

    def producer(self, cell: Cell) -> "LibrdkafkaProducer":
        """One that writes."""
        return LibrdkafkaProducer(Producer({**self._settings(cell), "linger.ms": 0}))

    def member(self, cell: Cell, group: str) -> "LibrdkafkaMember":
        """One that reads."""
        settings = {
            **self._settings(cell),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
        consumer = Consumer(settings)
        consumer.subscribe([cell["topic"]])
        return LibrdkafkaMember(consumer)


class LibrdkafkaProducer:
    def __init__(self, producer: Producer) -> None:
        """Wrap a producer of librdkafka."""
        self._producer = producer

    def send(self, topic: str, value: str) -> Callable[[], object]:
        """Begins to write a record."""
        written: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            written.append(error)

        self._producer.produce(topic, value, on_delivery=delivered)
        self._producer.poll(0)
        return functools.partial(self._wait, written)

    def _wait(self, written: list[KafkaError | None]) -> None:
        deadline = time.monotonic() + STEP_S
        while not written and time.monotonic() < deadline:
            self._producer.poll(0.1)
        if not written:
            raise TimeoutError("not acknowledged")
        if written[0] is not None:
            raise KafkaException(written[0])

    def close(self) -> None:
        """Lets it go: a producer that is let go of ends."""
        self._producer.purge()


class LibrdkafkaMember:
    def __init__(self, consumer: Consumer) -> None:
        """Wrap a subscribed consumer of librdkafka."""
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[str]:
        """Values of records."""
        messages = self._consumer.consume(500, timeout_s)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [(message.value() or b"").decode() for message in messages]

    def commit(self) -> None:
        """Commit the positions of the polled records."""
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        """Leaves."""
        self._consumer.close()


if __name__ == "__main__":
    run(Librdkafka())
