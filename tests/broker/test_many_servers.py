"""Several servers in one process, as namespaces and brokers of one process need them: each ends without a trace."""

import asyncio
import functools
import gc
import os
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.runtime.worker_threads import WorkerThreads
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from storage.files import Files, OsFiles
from tests.broker.harness import Client, join_alone, settings
from tests.broker.transactor import TOPICS, Transactor
from tests.storage.faulty_files import FaultyFiles

SERVERS = int(os.environ.get("SERVERS", "100"))
"""`make soak` has 500 of them."""
ON_A_DISK = 50
AT_ONCE = 10
FEW = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.enable": "false",
}
BLOCKS_EACH = 5
"""Blocks of memory that each server may leave behind; a running server takes some thousands."""
ROUNDS = 10
"""Rounds before the test fails. The last servers of a round may still hold some thousands of blocks when it ends; a
leak grows with every round."""


async def _live_and_end(data_dir: str, files: Files, threads: WorkerThreads) -> None:
    server = open_server(settings(data_dir, FEW, topics=TOPICS, files=files), threads=threads)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), 60)
    async with Client(server) as client:
        await join_alone(client, "g")
        assert (await client.call(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        transactor = Transactor()
        await transactor.begin(client)
        await transactor.transact(client)
        transactor.promises.check(await transactor.look(client))
        await transactor.write(client)  # open to the end
    await server.close()


async def _live_and_end_all(count: int, threads: WorkerThreads, directory: Path | None = None) -> None:
    """In memory, or below a directory on a disk."""
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(
            *(
                _live_and_end(
                    f"{directory or ''}/data-{number}", OsFiles() if directory else FaultyFiles(), threads
                )
                for number in range(first, first + AT_ONCE)
            )
        )


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def _servers() -> set[int]:
    """By identity; other tests may have left some behind."""
    return {id(found) for found in gc.get_objects() if isinstance(found, Server)}


def _threads() -> list[str]:
    """Those of the event loop's own pool belong to no server."""
    return sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_"))


def _allocated_blocks() -> int:
    """Blocks of memory in use once all function caches are empty: they are bounded, but fill over many rounds."""
    gc.unfreeze()  # a daemon that an earlier test started has frozen them: they would not be found
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper):
            found.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()


async def test_nothing_is_left_of_many_servers() -> None:
    shared = WorkerThreads()
    await _live_and_end_all(5 * AT_ONCE, shared)  # create one-time objects now
    gc.collect()
    threads, files, tasks, servers = _threads(), _open_files(), asyncio.all_tasks(), _servers()
    before = _allocated_blocks()
    grown: list[int] = []
    while len(grown) < ROUNDS and (not grown or grown[-1] >= BLOCKS_EACH * SERVERS * len(grown)):
        await _live_and_end_all(SERVERS, shared)
        grown.append(_allocated_blocks() - before)
    assert asyncio.all_tasks() == tasks
    assert _threads() == threads
    assert _open_files() <= files
    assert grown[-1] < BLOCKS_EACH * SERVERS * len(grown), grown
    assert _servers() <= servers
    shared.close()


async def test_no_file_of_a_disk_stays_open(tmp_path: Path) -> None:
    threads = WorkerThreads()
    await _live_and_end_all(AT_ONCE, threads, tmp_path / "first")
    gc.collect()
    files = _open_files()
    await _live_and_end_all(ON_A_DISK, threads, tmp_path / "then")
    # Not collected: a file that only the garbage collector closes was left open.
    assert _open_files() <= files
    threads.close()


async def test_transactions_of_the_same_name_are_those_of_their_server(tmp_path: Path) -> None:
    """Producers of one transactional id at servers of one process: none fences another, none sees its records."""
    threads = WorkerThreads()
    async with AsyncExitStack() as stack:
        at: list[tuple[Transactor, Client]] = []
        for number in range(AT_ONCE):
            server = open_server(settings(tmp_path / f"data-{number}", FEW, topics=TOPICS), threads=threads)
            stack.push_async_callback(server.close)
            await server.listen()
            await asyncio.wait_for(server.ready.wait(), 60)
            at.append((Transactor(), await stack.enter_async_context(Client(server))))
        await asyncio.gather(*(transactor.begin(client) for transactor, client in at))
        for turn in range(3):
            await asyncio.gather(*(transactor.write(client) for transactor, client in at))
            ends = enumerate(at, turn)
            await asyncio.gather(
                *(transactor.end(client, commits=number % 3 > 0) for number, (transactor, client) in ends)
            )
        for transactor, client in at:
            assert len(transactor.promises.committed) == 2
            transactor.promises.check(await transactor.look(client))
    threads.close()
