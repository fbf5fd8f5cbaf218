"""Several servers in one process, as namespaces and brokers of one process need them: each ends without a trace."""

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path

from coordinator.engine.flusher import Flusher
from coordinator.server.server import Server
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from storage.syncer import Syncer
from tests.server.harness import Client, join_alone, settings
from tests.storage.faulty_files import FaultyFiles

SERVERS = 500
POOL_THREADS = 32
"""What the event loop's own pool may grow to; it belongs to no server."""
AT_ONCE = 10
FEW = {"offsets.topic.num.partitions": "1", "log.cleaner.enable": "false"}
BLOCKS_EACH = 5
"""Blocks of memory that may stay for each, for caches that are still filling; a server takes some thousands."""


async def _live_and_end(number: int, flusher: Flusher) -> None:
    files = FaultyFiles()
    server = Server(settings(f"/data-{number}", FEW, topics=[("orders", 1)], files=files), flusher)
    server.open()
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), 60)
    async with Client(server) as client:
        await join_alone(client, "g")
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
    await server.close()


async def _live_and_end_all(count: int, flusher: Flusher) -> None:
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(_live_and_end(first + number, flusher) for number in range(AT_ONCE)))


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


async def test_nothing_is_left_of_five_hundred_servers() -> None:
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    await _live_and_end_all(5 * AT_ONCE, flusher)  # what is made once, is made now
    gc.collect()
    blocks, threads, files = sys.getallocatedblocks(), threading.active_count(), _open_files()
    tasks = len(asyncio.all_tasks())
    await _live_and_end_all(SERVERS, flusher)
    gc.collect()
    assert len(flusher.on_synced) == 0
    assert len(asyncio.all_tasks()) <= tasks
    assert threading.active_count() <= threads + POOL_THREADS
    assert _open_files() <= files
    assert sys.getallocatedblocks() - blocks < BLOCKS_EACH * SERVERS
    assert not [server for server in gc.get_objects() if isinstance(server, Server)]
    flusher.close()
