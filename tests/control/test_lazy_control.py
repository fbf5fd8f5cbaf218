"""groupd creates the control plane at its first use, with the events from before."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import TIMEOUT_S, Client, join_alone, settings, start


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await start(settings(None))
    yield server
    await server.close()


async def test_earlier_events_are_in_the_ledger(server: Server) -> None:
    late = LazyControlPlane(server)
    async with Client(server) as client:
        await join_alone(client, "billing")
    control = late.get_or_create()
    (entry,) = control.ledger.list_entries("billing")
    assert (entry.result, entry.cause) == (EntryResult.STABLE, "member joined")
    assert control.stream.last_seq == control.ledger.last_seq
    late.close()
    await late.finish()


async def test_it_is_made_by_itself_once_something_happens(server: Server) -> None:
    late = LazyControlPlane(server)
    async with Client(server) as client, asyncio.timeout(TIMEOUT_S):
        assert not late.created.is_set()
        await join_alone(client, "billing")
        await late.created.wait()
        closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
        late.get_or_create().ledger.listeners.append(closed.put_nowait)
        await join_alone(client, "audit")
        assert (await closed.get()).group_id == "audit"
    assert [entry.group_id for entry in late.get_or_create().ledger.list_entries(None)] == [
        "billing",
        "audit",
    ]
    late.close()
    late.close()


async def test_no_event_is_delivered_twice(server: Server) -> None:
    late = LazyControlPlane(server)
    assert late.get_or_create() is late.get_or_create()
    subscribers = len(server.group_events.subscribers)
    async with Client(server) as client:
        await join_alone(client, "billing")
    assert len(server.group_events.subscribers) == subscribers
    assert len(late.get_or_create().ledger.list_entries(None)) == 1
    late.close()


async def test_commits_before_it_was_there_are_checked_and_do_not_load_it_at_the_start() -> None:
    server = open_server(settings(None, {"oracle.commits": "true"}, topics=[("orders", 1)]))
    late = LazyControlPlane(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    assert not late.created.is_set()
    async with Client(server) as client:
        await join_alone(client, "billing")
        for offset in (9, 8):
            assert await commit(client, offset) == 0
        control = late.get_or_create()
        assert await commit(client, 7) == 0
    found = control.oracles.violations.list_after(oracle=OracleName.COMMIT_BEYOND_END)
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
    late = LazyControlPlane(server)
    async with Client(server) as client:
        await join_alone(client, "billing")
    late.close()
    await late.finish()
