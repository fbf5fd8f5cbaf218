"""kafka-python visits a secured broker."""

import time
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError

from tests.interop.clients.kafka_python_driver import join_without_time_limit
from tests.interop.clients.logged import Logged, NotLetIn
from tests.interop.clients.visits import STEP_S, Cell, run

TRY_MS: Final = 2000
"""It goes on trying where it is refused, and raises nothing before its time is up."""
FAILED: Final = "Bootstrap connection"
"""How it begins to say, in its log alone, why it could not connect."""
SAYS_NOTHING: Final = ("socket disconnected", "timed out", "KafkaTimeoutError")
"""Errors of the client when a refusal and the end of the connection arrive together: it then drops the
refusal. With Kafka it happens more often, at times at each attempt.
"""


class KafkaPython:
    def __init__(self) -> None:
        """Start with nothing logged. Its threads are called after the ids of its clients."""
        self._logged = Logged("kafka", lambda record: (record.threadName or "").removeprefix("kafka-io-"))

    @staticmethod
    def _settings(cell: Cell) -> dict[str, Any]:
        names = {
            "bootstrap_servers": "bootstrap",
            "security_protocol": "protocol",
            "sasl_mechanism": "mechanism",
            "sasl_plain_username": "user",
            "sasl_plain_password": "password",
            "ssl_cafile": "authority",
            "ssl_certfile": "certificate",
            "ssl_keyfile": "key",
        }
        settings = {name: cell[key] for name, key in names.items() if key in cell}
        return settings | {"client_id": cell["name"]}

    def login(self, cell: Cell) -> None:
        """Log in as an administrator, and repeat it until the client succeeds or reports the reason."""
        said = self._logged.of(cell)
        end = time.monotonic() + STEP_S
        while True:
            try:
                client = KafkaAdminClient(**self._settings(cell), bootstrap_timeout_ms=TRY_MS)
            except KafkaTimeoutError as error:
                for line in (said.get() for _ in range(said.qsize())):
                    if line.startswith(FAILED) and not any(words in line for words in SAYS_NOTHING):
                        raise NotLetIn(line) from error
                if time.monotonic() > end:
                    raise
            else:
                client.describe_topics([cell["topic"]])
                client.close()
                return

    def producer(self, cell: Cell) -> "KafkaPythonProducer":
        """One that writes."""
        return KafkaPythonProducer(KafkaProducer(**self._settings(cell)))

    def member(self, cell: Cell, group: str) -> "KafkaPythonMember":
        """One that reads."""
        consumer = KafkaConsumer(
            cell["topic"],
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **self._settings(cell),
        )
        join_without_time_limit(consumer)
        return KafkaPythonMember(consumer)


class KafkaPythonProducer:
    def __init__(self, producer: KafkaProducer) -> None:
        """Wrap a producer of kafka-python."""
        self._producer = producer

    def send(self, topic: str, value: str) -> Callable[[], object]:
        """Begins to write a record."""
        written = self._producer.send(topic, value.encode())
        return lambda: written.get(STEP_S)

    def close(self) -> None:
        """Ends it."""
        self._producer.close()


class KafkaPythonMember:
    def __init__(self, consumer: KafkaConsumer) -> None:
        """Wrap a subscribed consumer of kafka-python."""
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[str]:
        """Values of records."""
        polled = self._consumer.poll(timeout_s * 1000)
        return [record.value.decode() for records in polled.values() for record in records]

    def commit(self) -> None:
        """Commit the positions of the polled records."""
        self._consumer.commit()

    def close(self) -> None:
        """Leaves."""
        self._consumer.close()


if __name__ == "__main__":
    run(KafkaPython())
