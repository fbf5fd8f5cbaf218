"""The limits of waits, and the state after they end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.control.diagnosis import group_history, group_waits
from coordinator.control.diagnosis.group_waits import read_committed_offsets
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.harness import begin_producer
from tests.control.diagnosis.staged_group import GROUP, Stage, begun, ended, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage
    assert not len(stage.waits), "a wait is left"


async def test_a_thousand_waiters(stage: Stage) -> None:
    at_rest = len(stage.server.engine.observers)
    waiting = [
        asyncio.ensure_future(
            stage.wait(state="Stable", members=2, owned=["orders"], committed={"orders-0": 1})
        )
        for _ in range(1000)
    ]
    await begun(stage, 1000)
    alice, _ = await stage.stable("alice", "bob")
    await alice.commit({("orders", 0): 1})
    mets = await ended(*waiting)
    assert {met.group.members for met in mets} == {2}
    assert len(stage.server.engine.observers) == at_rest


async def test_a_thousand_waits_for_commits_share_one_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await stage.stable("alice")
    await alice.commit({("orders", number): 1 for number in range(6)})
    read = read_committed_offsets
    readings = 0

    async def counted(*asked: Any) -> Any:
        nonlocal readings
        readings += 1
        return await read(*asked)

    monkeypatch.setattr(group_waits, "read_committed_offsets", counted)
    waiting = [asyncio.ensure_future(stage.wait(committed={"orders-0": 2})) for _ in range(1000)]
    await begun(stage, 1000)
    for one in waiting[500:]:
        one.cancel()
    await alice.commit({("orders", 0): 2})
    mets = await ended(*waiting[:500])
    assert all("committed orders-0=2" in met.detail for met in mets)
    assert readings < 10
    assert not len(stage.waits)


@pytest.mark.parametrize("flush", ["always", "os"])
async def test_commits_are_waited_for_while_their_partition_moves(flush: str) -> None:
    async with staged(properties={"log.flush": flush}) as stage:
        (alice,) = await stage.stable("alice")
        await alice.commit({("orders", 0): 5})
        waiting = asyncio.ensure_future(stage.wait(committed={"orders-0": 9}))
        before = asyncio.ensure_future(stage.wait(committed={"orders-0": 6}))
        await begun(stage, 2)
        runtime = stage.server.runtime
        partition = runtime.find_partition(GROUP)
        for offset in (7, 9):
            runtime.lifecycle.reload_partition(partition)
            await stage.wait(committed={"orders-0": 5})
            assert not waiting.done()
            await alice.commit({("orders", 0): offset})
        await ended(waiting, before)


async def test_an_offset_of_a_transaction_is_waited_for_until_that_is_committed(stage: Stage) -> None:
    (alice,) = await stage.stable("alice")
    producer = await begin_producer(alice.client, "t")
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9, committed_metadata="")
    written = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
    )
    waiting = asyncio.ensure_future(stage.wait(committed={"orders-0": 9}))
    await begun(stage)
    answer = await alice.client.call(written, 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    await stage.unmet(committed={"orders-0": 9})
    assert not waiting.done()
    end = EndTxnRequest(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    assert (await alice.client.call(end, 5)).error_code == ErrorCode.NONE
    await ended(waiting)


async def test_a_thousand_that_fail(stage: Stage) -> None:
    await stage.stable("alice")
    results = await asyncio.gather(
        *(stage.wait(members=2, within_ms=500) for _ in range(1000)), return_exceptions=True
    )
    assert all(isinstance(one, Problem) and "2 members wanted" in one.detail for one in results)


async def test_too_many_waiters(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_waits, "MAX_WAITERS", 2)
    waiting = [asyncio.ensure_future(stage.wait(members=1)) for _ in range(2)]
    await begun(stage, 2)
    with pytest.raises(Problem) as raised:
        await stage.wait(members=1)
    assert raised.value.kind is ProblemKind.TOO_MANY
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await stage.unmet(members=1)


async def test_a_cancelled_wait_leaves_no_state(stage: Stage) -> None:
    at_rest = len(stage.server.engine.observers)
    (alice,) = await stage.stable("alice")
    waiters = stage.server.engine.waiter_count
    waiting = [asyncio.ensure_future(stage.wait(committed={"orders-0": 1}, quiet="1h")) for _ in range(10)]
    await begun(stage, 10)
    await alice.commit({("orders", 1): 1})
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not len(stage.waits)
    assert len(stage.server.engine.observers) == at_rest
    assert stage.server.engine.waiter_count == waiters
    await alice.commit({("orders", 0): 1})


async def test_how_long_it_was_waited_is_real_time(stage: Stage) -> None:
    began_ms = clock.monotonic_ms()
    problem = await stage.unmet(members=1, within_ms=150)
    assert 150 <= clock.monotonic_ms() - began_ms < 10_000
    assert problem.title.startswith("billing ")


async def test_the_end_of_the_server_ends_them(stage: Stage) -> None:
    waiting = asyncio.ensure_future(stage.wait(members=1))
    await begun(stage)
    stage.waits.close()
    with pytest.raises(Problem, match="Group billing does not exist"):
        await waiting


async def test_nothing_of_groups_is_remembered_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_history, "MAX_GROUPS", 3)
    for number in range(6):
        await stage.stable("alice", group=f"group-{number}")
    assert len(stage.waits.snapshots.histories) == 3
