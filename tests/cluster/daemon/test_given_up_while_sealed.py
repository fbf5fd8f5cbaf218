"""A partition is released right after an append, while its log is copied."""

import asyncio

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import StoreTransaction, StoreUnavailable, TransactionResult
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, daemons, eventually
from tests.cluster.daemon.records import TOPIC, batch, create, leader, partition_of, produced, read

KEYS = ClusterKeys(CLUSTER_ID)
NAME = TopicPartition(TOPIC, 0)


def log_of(daemon: Daemon) -> PartitionLog | None:
    part = partition_of(daemon)
    return None if part is None else part.log


async def test_what_was_to_be_written_with_the_old_token_takes_nothing_along_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster)
        old = log_of(first)
        assert old is not None
        transact, append, is_held = first.engine.transact, PartitionLog.append, True
        served, loop = first.cluster, asyncio.get_running_loop()
        assert served is not None

        async def held(transaction: StoreTransaction) -> TransactionResult:
            is_compared = any(KEYS.owner(*NAME) == each.key for each in transaction.compares)
            is_claim = any(KEYS.owner(*NAME) == each.key for each in transaction.operations)
            if is_held and is_compared and not is_claim:
                raise StoreUnavailable("not yet")
            return await transact(transaction)

        def appended(log: PartitionLog, *args: object, **kwargs: object) -> object:
            if log is old and log.is_open:
                loop.call_soon(served.owned_partitions.doubt_partition, NAME)
            return append(log, *args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(first.engine, "transact", held)
        monkeypatch.setattr(PartitionLog, "append", appended)
        old.pin()
        assert (await produced(first, batch(b"a"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        old.unpin()
        await eventually(lambda: log_of(first) not in (None, old))
        new = log_of(first)
        assert new is not None
        waiting = asyncio.create_task(produced(first, batch(b"b")))
        await eventually(lambda: new.log_end_offset == 1)
        is_held = False
        async with asyncio.timeout(60):
            assert (await waiting).error_code == ErrorCode.NONE
        assert (await produced(first, batch(b"c"))).error_code == ErrorCode.NONE
        await cluster.kill(first)
        assert await read(await leader(cluster)) == [b"b", b"c"]
