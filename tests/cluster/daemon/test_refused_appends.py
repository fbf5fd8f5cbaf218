"""An engine that keeps the session of a broker alive, and takes nothing from it: nobody waits for ever."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import Denied, EngineError, Outcome, Put, Transaction, Unavailable
from coordinator.cluster.keys import Keys
from coordinator.names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode
from tests.cluster.daemons import CLUSTER_ID, HANGS_S, daemons


@pytest.mark.parametrize(
    "error", [Denied("not any more"), Unavailable("corrupt cluster")], ids=["denied", "unavailable"]
)
async def test_who_waits_is_told_though_the_session_goes_on(
    error: EngineError, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = {"broker.session.timeout.ms": "2000"}
    async with daemons(None, 1, **session) as cluster:
        owner = await cluster.owner()
        assert await owner.commit(1) == ErrorCode.NONE
        transact = owner.engine.transact
        number = owner.server.runtime.partition_of("g").number
        begin, end = Keys(CLUSTER_ID).whole_log(CONSUMER_OFFSETS, number)

        async def refused(transaction: Transaction) -> Outcome:
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
