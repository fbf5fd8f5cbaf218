"""The control room is made when it is needed, and knows what happened before."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.control.late import LateControl
from coordinator.control.ledger.entry import EntryResult, LedgerEntry
from coordinator.server.server import Server
from tests.server.harness import TIMEOUT_S, Client, join_alone, settings, start


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = await start(settings(tmp_path))
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


async def test_a_stop_does_not_wait_for_it(server: Server) -> None:
    late = LateControl(server)
    async with Client(server) as client:
        await join_alone(client, "billing")
    late.close()
    await late.finish()
