"""The control room is made when it is needed, and knows what happened before."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.control.late import LateControl
from coordinator.control.ledger.entry import EntryResult, LedgerEntry
from coordinator.control.oracles.violation import OracleName
from coordinator.server.server import Server
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.server.harness import TIMEOUT_S, Client, join_alone, settings, start


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await start(settings(None))
    yield server
    await server.close()


async def test_what_happened_before_it_was_there_is_in_the_ledger(server: Server) -> None:
    late = LateControl(server)
    async with Client(server) as client:
        await join_alone(client, "billing")
    control = late.make()
    (entry,) = control.ledger.entries("billing")
    assert (entry.result, entry.cause) == (EntryResult.STABLE, "member joined")
    assert control.stream.last_seq == control.ledger.last_seq
    late.close()
    await late.finish()


async def test_it_is_made_by_itself_once_something_happens(server: Server) -> None:
    late = LateControl(server)
    async with Client(server) as client, asyncio.timeout(TIMEOUT_S):
        assert not late.made.is_set()
        await join_alone(client, "billing")
        await late.made.wait()
        closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
        late.make().ledger.listeners.append(closed.put_nowait)
        await join_alone(client, "audit")
        assert (await closed.get()).group_id == "audit"
    assert [entry.group_id for entry in late.make().ledger.entries(None)] == ["billing", "audit"]
    late.close()
    late.close()


async def test_nobody_is_told_twice(server: Server) -> None:
    late = LateControl(server)
    assert late.make() is late.make()
    listeners = len(server.group_events.listeners)
    async with Client(server) as client:
        await join_alone(client, "billing")
    assert len(server.group_events.listeners) == listeners
    assert len(late.make().ledger.entries(None)) == 1
    late.close()


async def test_commits_before_it_was_there_are_checked_and_do_not_load_it_at_the_start() -> None:
    server = Server(settings(None, {"oracle.commits": "true"}, topics=[("orders", 1)]))
    server.open()
    late = LateControl(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    assert not late.made.is_set()
    async with Client(server) as client:
        await join_alone(client, "billing")
        for offset in (9, 8):
            assert await commit(client, offset) == 0
        control = late.make()
        assert await commit(client, 7) == 0
    found = control.oracles.violations.after(oracle=OracleName.COMMIT_BEYOND_END)
    assert [one.to.offset for one in found if one.to is not None] == [9]
    assert [one.times for one in found] == [3]
    late.close()
    await late.finish()
    await server.close()


async def commit(client: Client, offset: int) -> int:
    """Commit an offset from outside of a group; the error of the answer."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    answer = await client.call(OffsetCommitRequest(group_id="audit", topics=[topic]), 7)
    return int(answer.topics[0].partitions[0].error_code)


async def test_a_stop_does_not_wait_for_it(server: Server) -> None:
    late = LateControl(server)
    async with Client(server) as client:
        await join_alone(client, "billing")
    late.close()
    await late.finish()
