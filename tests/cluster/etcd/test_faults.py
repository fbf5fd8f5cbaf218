"""Acknowledged records survive the death of any process, and no response is stale."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.etcd.conftest import SESSION_MS, Groupds
from tests.cluster.etcd.history import History

pytestmark = pytest.mark.timeout(600)


@asynccontextmanager
async def watched(groupds: Groupds, group: str) -> AsyncIterator[History]:
    """Run a history during the block; at its end, check for lost and stale values."""
    history = History(groupds.ports, group)
    history.start()
    try:
        await history.until_more()
        yield history
        await history.until_more()
    finally:
        await history.stop()
    assert history.stale == []
    assert history.reads
    assert await history.last() >= history.acknowledged


async def test_an_owner_is_killed(groupds: Groupds) -> None:
    async with watched(groupds, "killed") as history:
        owner = await history.owner()
        groupds.kill(owner)
        await history.until_more()
        await history.wait_for_other_owner(owner)


async def test_an_owner_is_stopped_in_order_and_started_again(groupds: Groupds) -> None:
    async with watched(groupds, "stopped") as history:
        owner = await history.owner()
        await asyncio.to_thread(groupds.stop, owner)
        await history.until_more()
        await asyncio.to_thread(groupds.start, owner)


async def test_an_owner_is_paused_past_its_session(groupds: Groupds) -> None:
    async with watched(groupds, "paused") as history:
        owner = await history.owner()
        groupds.signal(owner, signal.SIGSTOP)
        await asyncio.sleep(1.5 * SESSION_MS / 1000)
        # Its listeners still accept connections but do not respond.
        others = History([port for port in groupds.ports if port != groupds.ports[owner]], "paused")
        async with asyncio.timeout(60):
            assert await others.last() >= history.acknowledged
        groupds.signal(owner, signal.SIGCONT)
        await history.until_more()


async def test_the_leader_of_etcd_is_killed(groupds: Groupds) -> None:
    async with watched(groupds, "leader") as history:
        leader = groupds.etcd.leader()
        groupds.etcd.kill(leader)
        await history.until_more()
        groupds.etcd.start(leader)
        groupds.etcd.until_healthy()


async def test_an_owner_is_killed_while_the_leader_of_etcd_stands_still(groupds: Groupds) -> None:
    async with watched(groupds, "stalled") as history:
        leader, owner = groupds.etcd.leader(), await history.owner()
        groupds.etcd.pause(leader)
        groupds.kill(owner)
        try:
            # Whoever watched at that node has to hear of the owner's end elsewhere.
            await history.until_more()
        finally:
            groupds.etcd.resume(leader)
        groupds.etcd.until_healthy()


async def test_etcd_loses_its_quorum_and_gets_it_back(groupds: Groupds) -> None:
    async with watched(groupds, "quorum") as history:
        for number in (0, 1):
            groupds.etcd.kill(number)
        await asyncio.sleep(1.5 * SESSION_MS / 1000)
        acknowledged = history.acknowledged
        await asyncio.sleep(0.5)
        assert history.acknowledged == acknowledged
        groupds.etcd.start(0)
        await history.until_more()
        groupds.etcd.start(1)
        groupds.etcd.until_healthy()
