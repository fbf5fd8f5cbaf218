"""Appends that are sent one at a time: a defect in one costs its partition alone."""

import asyncio
from collections.abc import Hashable
from typing import Any

from coordinator.cluster.append import Appender, Partition
from coordinator.cluster.engine.engine import Outcome, Transaction
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.append_driver import AppendDriver

FIRST, SECOND, THIRD = (Partition("t", number) for number in range(3))


class TakesAll:
    """An engine that takes every transaction."""

    async def transact(self, transaction: Transaction) -> Outcome:
        await asyncio.sleep(0)
        return Outcome(True, 9)


class Broken(Keys):
    """Has no key for the records of `FIRST`."""

    def log(self, topic: str, number: int, base_offset: int) -> bytes:
        if (topic, number) == FIRST:
            raise RuntimeError("a defect")
        return super().log(topic, number, base_offset)


async def test_an_append_that_cannot_be_prepared_is_given_up_and_the_next_is_sent() -> None:
    done: asyncio.Queue[Hashable] = asyncio.Queue()
    lost: asyncio.Queue[tuple[Partition, Hashable]] = asyncio.Queue()

    def on_lost(partition: Partition, ticket: Hashable, reason: str) -> None:
        lost.put_nowait((partition, ticket))
        raise RuntimeError("another defect")

    engine: Any = TakesAll()
    driver = AppendDriver(engine, Appender(Broken("c")), done.put_nowait, on_lost)
    driver.append(FIRST, 5, 0, 1, b"a", "a")
    async with asyncio.timeout(60):
        assert await lost.get() == (FIRST, "a")
        driver.append(SECOND, 6, 0, 1, b"b", "b")
        driver.append(THIRD, 7, 0, 1, b"c", "c")
        assert {await done.get(), await done.get()} == {"b", "c"}
    assert lost.empty()
