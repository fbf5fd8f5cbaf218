"""Appends that are sent one at a time: a defect in one costs its partition alone."""

import asyncio
from collections.abc import Hashable
from typing import Any

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import StoreTransaction, TransactionResult
from coordinator.cluster.member.append_sender import AppendSender
from coordinator.cluster.partition_appends import PartitionAppender, PartitionId

FIRST, SECOND, THIRD = (PartitionId("t", number) for number in range(3))


class TakesAll:
    """An engine that takes every transaction."""

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        await asyncio.sleep(0)
        return TransactionResult(True, 9)


class Broken(ClusterKeys):
    """Has no key for the records of `FIRST`."""

    def log(self, topic: str, number: int, base_offset: int) -> bytes:
        if (topic, number) == FIRST:
            raise RuntimeError("a defect")
        return super().log(topic, number, base_offset)


async def test_an_append_that_cannot_be_prepared_is_given_up_and_the_next_is_sent() -> None:
    done: asyncio.Queue[Hashable] = asyncio.Queue()
    lost: asyncio.Queue[tuple[PartitionId, Hashable]] = asyncio.Queue()

    def on_lost(partition: PartitionId, ticket: Hashable, reason: str) -> None:
        lost.put_nowait((partition, ticket))
        raise RuntimeError("another defect")

    engine: Any = TakesAll()
    driver = AppendSender(engine, PartitionAppender(Broken("c")), done.put_nowait, on_lost)
    driver.append(FIRST, 5, 0, 1, b"a", "a")
    async with asyncio.timeout(60):
        assert await lost.get() == (FIRST, "a")
        driver.append(SECOND, 6, 0, 1, b"b", "b")
        driver.append(THIRD, 7, 0, 1, b"c", "c")
        assert {await done.get(), await done.get()} == {"b", "c"}
    assert lost.empty()
