"""The engine keeps a broker's session alive but rejects its writes: no request waits for ever."""

import asyncio

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    KeyValueStoreError,
    Put,
    StoreAccessDenied,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, HANGS_S, daemons


@pytest.mark.parametrize(
    "error",
    [StoreAccessDenied("not any more"), StoreUnavailable("corrupt cluster")],
    ids=["denied", "unavailable"],
)
async def test_who_waits_is_told_though_the_session_goes_on(
    error: KeyValueStoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = {"broker.session.timeout.ms": "2000"}
    async with daemons(None, 1, **session) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(1) == ErrorCode.NONE
        transact = owner.engine.transact
        number = owner.server.runtime.find_partition("g").number
        begin, end = ClusterKeys(CLUSTER_ID).log_range(CONSUMER_OFFSETS, number)

        async def refused(transaction: StoreTransaction) -> TransactionResult:
            puts = [each for each in transaction.operations if isinstance(each, Put)]
            if any(begin <= put.key < end for put in puts):
                raise error
            return await transact(transaction)

        monkeypatch.setattr(owner.engine, "transact", refused)
        async with asyncio.timeout(HANGS_S):
            assert await owner.commit(2) == ErrorCode.NOT_COORDINATOR
        monkeypatch.undo()
        again = await cluster.owner()
        assert await again.committed() == 1
        assert await again.commit(3) == ErrorCode.NONE
