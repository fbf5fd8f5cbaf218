"""A topic with replicas on a real etcd: a stock producer neither loses nor duplicates records when its leaders
fail."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.etcd.conftest import SESSION_MS, Groupds
from tests.cluster.etcd.record_history import RecordHistory, create

pytestmark = pytest.mark.timeout(600)


async def kill(groupds: Groupds, history: RecordHistory) -> None:
    groupds.kill(0)
    await asyncio.to_thread(history.until_more)
    groupds.start(0)


async def pause(groupds: Groupds, history: RecordHistory) -> None:
    groupds.signal(0, signal.SIGSTOP)
    await asyncio.sleep(2 * SESSION_MS / 1000)
    groupds.signal(0, signal.SIGCONT)


async def stop(groupds: Groupds, history: RecordHistory) -> None:
    await asyncio.to_thread(groupds.stop, 0)
    await asyncio.to_thread(history.until_more)
    groupds.start(0)


async def kill_leader_of_etcd(groupds: Groupds, history: RecordHistory) -> None:
    number = groupds.etcd.leader()
    groupds.etcd.kill(number)
    await asyncio.to_thread(history.until_more)
    groupds.etcd.start(number)
    groupds.etcd.until_healthy()


@pytest.mark.parametrize("fault", [kill, pause, stop, kill_leader_of_etcd])
async def test_each_record_is_there_once_and_in_order(
    groupds: Groupds, fault: Callable[[Groupds, RecordHistory], Awaitable[None]]
) -> None:
    topic = fault.__name__.replace("_", "-")
    await asyncio.to_thread(create, groupds.bootstrap, topic)
    history = RecordHistory(groupds.bootstrap, topic)
    try:
        await asyncio.to_thread(history.until_more)
        await fault(groupds, history)
        await asyncio.to_thread(history.until_more)
    finally:
        await asyncio.to_thread(history.stop)
    await asyncio.to_thread(history.check)
