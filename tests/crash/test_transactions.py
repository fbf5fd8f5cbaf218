"""Transactions on a disk that fails or forgets: a commit that was acknowledged is everywhere, another one is
everywhere or nowhere, and nothing hangs."""

import errno
import os
import threading
from random import Random

import pytest

from coordinator.apis import transaction_markers
from coordinator.broker.server import Server
from coordinator.runtime import partition_driver
from tests.broker.harness import Client, serving, settings, start
from tests.broker.test_group_partitions import ONE_PARTITION
from tests.broker.transactor import TOPICS, Transactor
from tests.storage.faulty_files import FaultyFiles
from tests.storage.inode import Inode

DATA = "/data"
SEED = int(os.environ.get("CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
STEP = 1 if "CRASH_ROUNDS" in os.environ else 11
"""Each call is one of these away from the next that has its turn."""
READING = ("read", "pread", "open", "space", "listdir")
PROPERTIES = {
    **ONE_PARTITION,
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "1500",
    "offsets.topic.segment.bytes": "1500",
}


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_driver, "RETRY_S", 0.01)
    monkeypatch.setattr(transaction_markers, "INITIAL_RETRY_MS", 5)


class FilmedFiles(FaultyFiles):
    """While recording, keeps a copy of the disk after a crash at each call."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.pictures: list[tuple[FaultyFiles, Transactor]] = []
        self._seed = seed
        self._lock = threading.RLock()
        self._transactor: Transactor | None = None

    def film(self, transactor: Transactor | None) -> None:
        """Start recording with a producer's promises; None stops it."""
        self._transactor = transactor

    def call(self, operation: str) -> int:
        with self._lock:  # a concurrent change comes wholly before or after the copy
            if self._transactor is not None and operation not in READING:
                self._take(self._transactor)
            return super().call(operation)

    def _take(self, transactor: Transactor) -> None:
        then = transactor.copy()
        nth = len(self.pictures)
        left = [self.crash, lambda: self.crash(Random(self._seed + nth)), self._killed][nth % 3]()
        then.promises.possible |= transactor.promises.possible  # something may have been sent meanwhile
        self.pictures.append((left, then))

    def _killed(self) -> FaultyFiles:
        """Return a copy of the state after a kill; unlike after `kill`, this process continues."""
        after = FaultyFiles()
        for path, inode in dict(self.names).items():
            copy = Inode(inode.is_directory, bytearray(inode.data), bytearray(inode.data), len(inode.data))
            after.names[path] = after.disk_names[path] = copy
        return after


async def check(
    files: FaultyFiles, transactor: Transactor, properties: dict[str, str], *, asks_again: bool = False
) -> None:
    """Check the state after a start, and that the producer can continue.

    With `asks_again` the producer retries the unanswered end; otherwise it restarts as well.
    """
    async with serving(DATA, properties, topics=(), files=files) as server, Client(server) as client:
        if asks_again:
            await transactor.end(client)
        else:
            await transactor.begin(client)
        transactor.promises.settle(await transactor.look(client))
        await transactor.transact(client)
        transactor.promises.check(await transactor.look(client))


async def begun(files: FaultyFiles, properties: dict[str, str], level: int) -> tuple[Server, Transactor]:
    """A server with the topic of transactions, and a producer that has one behind it."""
    server = await start(settings(DATA, properties, topics=TOPICS, files=files))
    transactor = Transactor(level=level)
    async with Client(server) as client:
        await transactor.begin(client)
        await transactor.transact(client)
        await transactor.look(client)
    return server, transactor


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("flush", ["always", "os"])
async def test_a_failure_at_every_call(flush: str, level: int) -> None:
    """One call fails and the next ones succeed: the producer retries, as clients do, and ends its transaction."""
    properties = {**PROPERTIES, "log.flush": flush}
    print(f"reproduce with CRASH_SEED={SEED}")
    for nth in range(1 + SEED % STEP, 1000, STEP):
        files = FaultyFiles()
        server, transactor = await begun(files, properties, level)
        calls = files.calls.total()
        files.fail("any", nth, [errno.EIO, errno.ENOSPC][nth % 2], torn_bytes=nth % 50)
        async with Client(server) as client:
            for number in range(3):
                await transactor.transact(client, commits=number != 1)
            has_failed = files.calls.total() - calls >= nth
            files.faults.clear()
            await transactor.transact(client)
            transactor.promises.check(await transactor.look(client))
        await server.close()
        left = files.crash() if flush == "always" else files.kill()
        await check(left, transactor, properties)
        if not has_failed:
            assert nth > 30
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("level", [0, 2])
async def test_an_end_at_every_call(level: int) -> None:
    """The power is cut, with any part of the unsynced data on the disk, or the process is killed.

    Each transaction is everywhere or nowhere, and a retry of the requested end completes it.
    """
    properties = {**PROPERTIES, "log.flush": "always"}
    print(f"reproduce with CRASH_SEED={SEED}")
    files = FilmedFiles(SEED)
    server, transactor = await begun(files, properties, level)
    async with Client(server) as client:
        files.film(transactor)
        for number in range(4):
            await transactor.transact(client, commits=number != 1)
        await transactor.write(client)
        files.film(None)
    server.abandon()
    assert len(files.pictures) > 50
    for nth, (left, then) in enumerate(files.pictures[SEED % STEP :: STEP]):
        is_ending = then.number in then.promises.possible - then.promises.committed
        await check(left, then, properties, asks_again=is_ending and nth % 2 == 0)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("level", [0, 2])
async def test_the_next_start_writes_the_markers_that_were_not_written(level: int, commits: bool) -> None:
    """Nobody has to ask for it: the end was acknowledged."""
    files = FaultyFiles()
    server, transactor = await begun(files, PROPERTIES, level)
    assert server.transactions.coordinator is not None
    server.transactions.coordinator.marker_writer.write_marker = lambda *_: None  # type: ignore[method-assign]
    async with Client(server) as client:
        await transactor.transact(client, commits=commits)
    left = files.kill()
    server.abandon()
    async with serving(DATA, PROPERTIES, topics=(), files=left) as after, Client(after) as client:
        transactor.promises.check(await transactor.look(client))
        await transactor.transact(client)  # with the producer id and the epoch that it has
        transactor.promises.check(await transactor.look(client))
