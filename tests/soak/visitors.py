"""Long and short lived producers; topics and groups that tests create, use and delete."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.soak.clients import KINDS
from tests.soak.crowd import FLEETING, STABLE, Crowd, Seat
from tests.soak.promises import Promises

TOPICS: Final = {f"{STABLE}{name}": partitions for name, partitions in (("a", 6), ("b", 3), ("c", 1))}
_ANSWER_S: Final = 20
_PRODUCE_EVERY_S: Final = 0.1
_RECORDS: Final = 3
_RECORD_BYTES: Final = 2_000
"""So much that retention has the logs at their size within minutes."""


class Visitors:
    """Producers and administrators. `done` counts their operations."""

    def __init__(self, bootstrap: str, crowd: Crowd, promises: Promises, chance: Random) -> None:
        self.done: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._crowd = crowd
        self._promises = promises
        self._chance = chance
        self._fleeting: list[str] = []
        self._numbers = itertools.count(1)
        self._is_over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def come(self) -> None:
        """Lets them begin."""
        work = (self._produce, self._produce_briefly, self._change_topics, self._visit_groups)
        self._tasks = [asyncio.create_task(one()) for one in work]

    async def go(self) -> None:
        """Stop all visitors. Raises the error of a failed one."""
        self._is_over.set()
        await asyncio.gather(*self._tasks)

    async def _pass(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._is_over.wait(), seconds)
        except TimeoutError:
            return

    async def _produce(self) -> None:
        """To every topic, all the time."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "message.timeout.ms": 10_000})
        while not self._is_over.is_set():
            self._send(producer, [*TOPICS, *self._fleeting])
            producer.poll(0)
            await asyncio.sleep(_PRODUCE_EVERY_S)
        await asyncio.to_thread(producer.flush, _ANSWER_S)

    async def _produce_briefly(self) -> None:
        """With a new producer each time, that numbers its batches."""
        while not self._is_over.is_set():
            producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
            self._send(producer, list(TOPICS))
            left = await asyncio.to_thread(producer.flush, _ANSWER_S)
            assert left == 0, "an idempotent producer got no answer"
            self.done["producers"] += 1
            await self._pass(4)

    def _send(self, producer: Producer, topics: list[str]) -> None:
        for topic in topics:
            for _ in range(_RECORDS):
                producer.produce(
                    topic, value=self._chance.randbytes(_RECORD_BYTES), on_delivery=self._delivered
                )

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        self.done["records" if error is None else "records not delivered"] += 1

    async def _change_topics(self) -> None:
        """Makes topics, lets them grow, deletes them while they are consumed."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        while not self._is_over.is_set():
            name = f"{FLEETING}{next(self._numbers)}"
            await _answers(admin.create_topics, [NewTopic(name, 2, 1)])
            self._fleeting.append(name)
            self.done["topics created"] += 1
            await self._pass(self._chance.uniform(5, 15))
            if self._chance.random() < 0.3:
                await _answers(admin.create_partitions, [NewPartitions(name, 4)])
                await self._pass(5)
            if len(self._fleeting) > 2 or self._is_over.is_set():
                await self._delete_topic(admin, self._fleeting.pop(0))
        for name in self._fleeting:
            await self._delete_topic(admin, name)

    async def _delete_topic(self, admin: AdminClient, name: str) -> None:
        self._promises.topic_deleted(name)
        await _answers(admin.delete_topics, [name])
        self.done["topics deleted"] += 1

    async def _visit_groups(self) -> None:
        """Groups of one member, deleted after it has left."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        while not self._is_over.is_set():
            group = f"visited-{next(self._numbers)}"
            await self._crowd.live(Seat(self._chance.choice(KINDS), group, STABLE), 8)
            await self._delete_group(admin, group)
            self.done["groups deleted"] += 1

    async def _delete_group(self, admin: AdminClient, group: str) -> None:
        """One that was killed is a member until its session ends."""
        while True:
            try:
                await _answers(admin.delete_consumer_groups, [group])
            except KafkaException as refused:
                code = refused.args[0].code()
                if code == KafkaError.GROUP_ID_NOT_FOUND:
                    break
                if code != KafkaError.NON_EMPTY_GROUP:
                    raise
                await asyncio.sleep(1)
            else:
                break
        self._promises.group_deleted(group)


async def _answers(ask: Callable[[list[Any]], dict[str, Future[Any]]], wanted: list[Any]) -> None:
    """Wait for an administrator's requests. Raises KafkaException."""

    def wait() -> None:
        for future in ask(wanted).values():
            future.result(_ANSWER_S)

    await asyncio.to_thread(wait)
