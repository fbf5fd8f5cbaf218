"""aiokafka visits a secured broker. All its clients live on one loop, in a thread of its own."""

import asyncio
import contextvars
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context

from tests.interop.clients.logged import Logged, NotLetIn
from tests.interop.clients.visits import STEP_S, Cell, run

Result = TypeVar("Result")
VISITED: Final = contextvars.ContextVar("VISITED", default="")
"""The name of the cell that a task of the loop is busy with."""


class Aiokafka:
    def __init__(self) -> None:
        """Start the loop."""
        self._logged = Logged("aiokafka", lambda _record: VISITED.get())
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def wait(self, doing: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the client's loop, with a time limit; return its result."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(doing, STEP_S), self._loop).result()

    @staticmethod
    def _settings(cell: Cell) -> dict[str, Any]:
        names = {
            "bootstrap_servers": "bootstrap",
            "security_protocol": "protocol",
            "sasl_mechanism": "mechanism",
            "sasl_plain_username": "user",
            "sasl_plain_password": "password",
        }
        settings: dict[str, Any] = {name: cell[key] for name, key in names.items() if key in cell}
        context: ssl.SSLContext | None = None
        if "SSL" in cell["protocol"]:
            context = create_ssl_context(
                cafile=cell["authority"], certfile=cell.get("certificate"), keyfile=cell.get("key")
            )
        return settings | {"client_id": cell["name"], "ssl_context": context}

    def login(self, cell: Cell) -> None:
        """As an administrator."""

        async def ask() -> None:
            VISITED.set(cell["name"])
            client = AIOKafkaAdminClient(**self._settings(cell))
            try:
                await client.start()
                await client.describe_topics([cell["topic"]])
            except KafkaConnectionError as error:
                said = self._logged.of(cell)
                raise NotLetIn("; ".join(said.get() for _ in range(said.qsize()))) from error
            finally:
                await client.close()

        self.wait(ask())

    def producer(self, cell: Cell) -> "AiokafkaProducer":
        """One that writes."""

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(**self._settings(cell))
            await producer.start()
            return producer

        return AiokafkaProducer(self, self.wait(start()))

    def member(self, cell: Cell, group: str) -> "AiokafkaMember":
        """One that reads."""

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                cell["topic"],
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
                **self._settings(cell),
            )
            await consumer.start()
            return consumer

        return AiokafkaMember(self, self.wait(start()))


class AiokafkaProducer:
    def __init__(self, client: Aiokafka, producer: AIOKafkaProducer) -> None:
        """Wrap a started producer."""
        self._client = client
        self._producer = producer

    def send(self, topic: str, value: str) -> Callable[[], object]:
        """Begins to write a record."""
        written = self._client.wait(self._producer.send(topic, value.encode()))
        return lambda: self._client.wait(asyncio.wait_for(written, STEP_S))

    def close(self) -> None:
        """Ends it."""
        self._client.wait(self._producer.stop())


class AiokafkaMember:
    def __init__(self, client: Aiokafka, consumer: AIOKafkaConsumer) -> None:
        """Wrap a started consumer."""
        self._client = client
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[str]:
        """Values of records."""
        polled = self._client.wait(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [record.value.decode() for records in polled.values() for record in records]

    def commit(self) -> None:
        """Commit the positions of the polled records."""
        self._client.wait(self._consumer.commit())

    def close(self) -> None:
        """Leaves."""
        self._client.wait(self._consumer.stop())


if __name__ == "__main__":
    run(Aiokafka())
