"""The running daemon on a disk that fails, fills up, or loses unsynced data in a power cut."""

import errno
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from coordinator.broker.composition_root import open_server
from coordinator.broker.directory_recovery import recover_directory
from coordinator.broker.server import Server
from coordinator.core.message_text import StartFailed
from coordinator.runtime import partition_driver
from protocol.error_codes import ErrorCode
from storage.storage_errors import DataDirectoryLocked
from storage.syncer import Syncer
from tests.broker.harness import Client, join_alone, serving, settings, start
from tests.broker.test_group_partitions import ONE_PARTITION, active, code, commit, committed
from tests.storage.faulty_files import FaultyFiles

DATA = "/data"
SMALL_SEGMENTS = {"offsets.topic.segment.bytes": "1500"}
TWO_PARTITIONS = {"offsets.topic.num.partitions": "2"}
KAFKAS_ERRORS = {
    ErrorCode.NONE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_driver, "RETRY_S", 0.01)


@pytest.fixture
async def server(files: FaultyFiles) -> AsyncIterator[Server]:
    server = await start(settings(DATA, TWO_PARTITIONS, topics=[("orders", 1)], files=files))
    yield server
    files.faults.clear()
    await active(server)
    await server.close()


def groups_of(server: Server) -> tuple[str, str]:
    """A group of each of two partitions."""
    names = [f"group-{number}" for number in range(20)]
    by_partition = {server.runtime.find_partition(name).number: name for name in names}
    return by_partition[0], by_partition[1]


class Commits:
    """The commits of one group through all faults, and the acknowledged offsets."""

    def __init__(self) -> None:
        self.sent = self.acknowledged = 0

    async def one(self, client: Client) -> ErrorCode:
        """Commits the next offset."""
        self.sent += 1
        error = ErrorCode(code(await client.call(commit(self.sent), 2)))
        assert error in KAFKAS_ERRORS
        if error is ErrorCode.NONE:
            self.acknowledged = self.sent
        return error

    def check(self, found: int) -> None:
        """Raises AssertionError when a promise was broken."""
        assert self.acknowledged <= max(found, 0) <= self.sent, (self.acknowledged, found, self.sent)


ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)


@pytest.mark.parametrize("flush", ["always", "os"])
async def test_a_failure_at_every_call_while_serving(flush: str) -> None:
    """One file-system call fails, the next ones succeed: no acknowledged data is lost, and service continues."""
    await fail_at_every_call(flush, 0)


@pytest.mark.parametrize("flush", ["always", "os"])
@pytest.mark.parametrize("shift", [1, 2])
async def test_the_other_errors_at_every_call_while_serving(flush: str, shift: int) -> None:
    """With the test above, each call has failed with each error."""
    await fail_at_every_call(flush, shift)


async def fail_at_every_call(flush: str, shift: int) -> None:
    """Let the first call on the file system fail, then in a new run the second, and so on.

    The errors take turns; `shift` is the index of the first one.
    """
    properties = {**ONE_PARTITION, **SMALL_SEGMENTS, "log.flush": flush}
    for nth in range(1, 1000):
        files = FaultyFiles()
        server = await start(settings(DATA, properties, topics=[("orders", 1)], files=files))
        calls = files.calls.total()
        files.fail("any", nth, ERRORS[(nth + shift) % len(ERRORS)], torn_bytes=nth % 50)
        commits = Commits()
        async with Client(server) as client:
            for _ in range(25):
                if await commits.one(client) is not ErrorCode.NONE:
                    await active(server)
                    commits.check(await committed(client))
            has_failed = files.calls.total() - calls >= nth
            files.faults.clear()
            if await commits.one(client) is not ErrorCode.NONE:
                await active(server)  # a background sync had failed; the server notices it here
                assert await commits.one(client) is ErrorCode.NONE
            commits.check(await committed(client))
        await server.close()
        for left in (files.kill(), files.crash() if flush == "always" else files.kill()):
            async with serving(DATA, properties, topics=(), files=left) as after, Client(after) as client:
                commits.check(await committed(client))
        if not has_failed:
            assert nth > 30
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("operation", ["any", "write", "fdatasync"])
@pytest.mark.parametrize("error", ERRORS)
async def test_a_disk_that_refuses_for_long(
    server: Server, files: FaultyFiles, operation: str, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon refuses every commit, logs this once and continues to run. It accepts commits when the disk
    works again."""
    caplog.set_level(logging.INFO)
    commits = Commits()
    async with Client(server) as client:
        assert await commits.one(client) is ErrorCode.NONE
        files.fail(operation, error=error, times=10**9)
        for _ in range(30):
            assert await commits.one(client) is not ErrorCode.NONE
        files.faults.clear()
        await active(server)
        commits.check(await committed(client))
        assert await commits.one(client) is ErrorCode.NONE
        assert await committed(client) == commits.sent
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert 1 <= len(records) <= 3, [record.getMessage() for record in records]
    assert any("recovered after" in record.getMessage() for record in caplog.records)


async def test_the_groups_of_other_partitions_are_served_meanwhile(
    server: Server, files: FaultyFiles
) -> None:
    """A sync fails for the partition that is being written; the other one only waits for its own."""
    failing, healthy = groups_of(server)
    async with Client(server) as client, Client(server) as other:
        for group in (failing, healthy):
            assert code(await client.call(commit(1, group=group), 2)) == ErrorCode.NONE
        member_id, generation_id = await join_alone(other, healthy + "-members")
        files.fail("fdatasync", times=2)  # the journal, and the segment in its place
        assert code(await client.call(commit(2, group=failing), 2)) == ErrorCode.NOT_COORDINATOR
        assert code(await other.call(commit(2, group=healthy), 2)) == ErrorCode.NONE
        assert await committed(other, healthy) == 2
        request = commit(3, group=healthy + "-members", member_id=member_id, generation_id=generation_id)
        assert code(await other.call(request, 5)) == ErrorCode.NONE


async def test_a_journal_that_fails_costs_nothing(
    server: Server, files: FaultyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """The segments are synced instead.

    every commit is answered and survives a power cut. The failure is logged once.
    """
    commits = Commits()
    async with Client(server) as client:
        assert await commits.one(client) is ErrorCode.NONE
        for operation in ("write_at", "fdatasync"):
            files.fail(operation, error=errno.ENOSPC)
            for _ in range(3):
                assert await commits.one(client) is ErrorCode.NONE
            server.directory.journal.retry_after_failure()
        survivor = files.crash()
    assert len([record for record in caplog.records if record.name == "Flusher"]) == 2
    async with serving(DATA, TWO_PARTITIONS, files=survivor, topics=()) as after, Client(after) as client:
        assert await committed(client) == commits.sent


@pytest.mark.parametrize("is_recovered", [False, True], ids=["by a start", "by groupd log recover"])
async def test_a_commit_right_after_the_first_start_outlives_the_power(
    server: Server, files: FaultyFiles, is_recovered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the journal. Where that was there before the partitions, the disk may not know their directories."""
    monkeypatch.setattr(Syncer, "settle_logs", lambda *_: None)  # the disk takes its time
    async with Client(server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
        survivor = files.crash()
    for path in [path for path in survivor.names if path.startswith(f"{DATA}/__consumer_offsets")]:
        del survivor.names[path], survivor.disk_names[path]
    if is_recovered:
        recover_directory(survivor, DATA)
    async with serving(DATA, TWO_PARTITIONS, files=survivor, topics=()) as after, Client(after) as client:
        assert await committed(client) == 1


async def test_the_journal_of_a_daemon_that_runs_is_not_removed(server: Server, files: FaultyFiles) -> None:
    async with Client(server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
    with pytest.raises(DataDirectoryLocked):
        recover_directory(files, DATA, without_journal=True)
    assert files.exists(f"{DATA}/journal")


async def test_a_failed_sync_is_not_made_good_by_a_second_one(server: Server, files: FaultyFiles) -> None:
    """The kernel marks the pages of a failed sync clean, so the server must write later acknowledged data again."""
    group, _ = groups_of(server)
    async with Client(server) as client:
        assert code(await client.call(commit(1, group=group), 2)) == ErrorCode.NONE
        files.fail("fdatasync", times=2)  # the journal, and the segment in its place
        assert code(await client.call(commit(2, group=group), 2)) == ErrorCode.NOT_COORDINATOR
        await active(server)
        seen = await committed(client, group)
        left = files.crash()
        assert code(await client.call(commit(3, group=group), 2)) == ErrorCode.NONE
        after_commit = files.crash()
    for survivor, wanted in ((left, seen), (after_commit, 3)):
        async with serving(DATA, files=survivor, topics=()) as after, Client(after) as client:
            assert await committed(client, group) == wanted


async def test_a_start_on_a_disk_that_fails_at_any_call() -> None:
    """The daemon ends and names the failure, or serves all acknowledged records. The next start finds all of
    them."""
    before = FaultyFiles()
    async with (
        serving(DATA, ONE_PARTITION, files=before, topics=[("orders", 1)]) as server,
        Client(server) as client,
    ):
        assert code(await client.call(commit(7), 2)) == ErrorCode.NONE
    starts = refused = 0
    for nth in range(1, 200):
        files = before.crash()
        files.fail("any", nth, errno.EIO)
        try:
            server = await start(settings(DATA, ONE_PARTITION, files=files))
        except StartFailed:
            refused += 1
        else:
            starts += 1
            async with Client(server) as client:
                await active(server)
                assert await committed(client) == 7
            files.faults.clear()
            await server.close()
        async with (
            serving(DATA, ONE_PARTITION, files=files.crash(), topics=()) as after,
            Client(after) as client,
        ):
            assert await committed(client) == 7
        if files.calls.total() < nth:
            assert starts
            assert refused
            return
    raise AssertionError("it never ends")


def torn_copies(files: FaultyFiles, path: str, start: int) -> Iterator[FaultyFiles]:
    """The file system with the end of one file cut off, at every byte from `start`."""
    whole = bytes(files.names[path].data)
    for directory in (path.rpartition("/")[0], DATA):  # the file name was on the disk before
        files.fsync_directory(directory)
    for size in range(start, len(whole) + 1):
        for tail in (b"", bytes(len(whole) - size)):  # the size may be on disk before the bytes are
            copy = files.crash()
            inode = copy.names[path]
            inode.data[:] = inode.disk[:] = whole[:size] + tail
            inode.dirty_from = len(inode.data)
            yield copy


@pytest.mark.parametrize(("journal_file_bytes", "found_where_torn"), [("0", 1), ("100000", 2)])
async def test_a_batch_torn_at_every_byte_by_a_power_cut(
    files: FaultyFiles, journal_file_bytes: str, found_where_torn: int
) -> None:
    """What was acknowledged before it is there; the batch is there whole, or not at all. Where the journal has it,
    it is there whole."""
    properties = {**ONE_PARTITION, "log.journal.file.bytes": journal_file_bytes}
    server = await start(settings(DATA, properties, topics=[("orders", 1)], files=files))
    path = f"{DATA}/__consumer_offsets-0/{0:020d}.log"
    async with Client(server) as client:
        assert code(await client.call(commit(1), 2)) == ErrorCode.NONE
        size = files.size(path)
        assert code(await client.call(commit(2), 2)) == ErrorCode.NONE
    whole = files.read(path)
    found_whole = []
    for copy in torn_copies(files, path, size):
        found_whole.append(copy.read(path) == whole)
        async with serving(DATA, ONE_PARTITION, files=copy, topics=()) as after, Client(after) as client:
            assert await committed(client) == (2 if found_whole[-1] else found_where_torn)
            assert code(await client.call(commit(3), 2)) == ErrorCode.NONE
            assert await committed(client) == 3
    assert found_whole[-1]
    assert found_whole.count(False) > 100
    server.abandon()


@pytest.mark.parametrize("seed", range(8))
async def test_power_cuts_at_random_instants(seed: int) -> None:
    """Repeated crashes of the machine, each with a part of the unsynced data: no acknowledged commit is lost."""
    random = Random(seed)
    properties = {**ONE_PARTITION, **SMALL_SEGMENTS}
    files, commits = FaultyFiles(), Commits()
    for _ in range(8):
        server = await start(settings(DATA, properties, topics=[("orders", 1)], files=files))
        async with Client(server) as client:
            if commits.sent:
                found = await committed(client)
                commits.check(found)
                commits.acknowledged = max(found, 0)
            cut = random.randrange(1, 20)
            for number in range(20):
                if number == cut:
                    # Sent, perhaps written, perhaps synced, and not answered before the power goes.
                    client.send(commit(commits.sent + 1), 2)
                    commits.sent += 1
                    left = files.crash(random)
                    assert code(await client.receive()) == ErrorCode.NONE
                    break
                assert await commits.one(client) is ErrorCode.NONE
            else:
                left = files.crash(random)
        server.abandon()
        files = left


async def test_a_read_only_directory_cannot_be_served(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.fail("any", 1, errno.EROFS, times=10**9)
    with pytest.raises(StartFailed, match="read-only"):
        open_server(settings(DATA, files=files))


async def test_a_partition_that_fails_while_it_is_compacted() -> None:
    """The compaction ends before the log is opened again; then both continue."""
    files = FaultyFiles()
    properties = {**ONE_PARTITION, **SMALL_SEGMENTS, "log.cleaner.backoff.ms": "1"}
    commits = Commits()
    async with (
        serving(DATA, properties, topics=[("orders", 1)], files=files) as server,
        Client(server) as client,
    ):
        for _ in range(5):
            log = server.runtime.partitions[0].log
            assert log is not None
            while not log.is_pinned:
                assert await commits.one(client) is ErrorCode.NONE
            files.fail("write", times=10**9)
            while await commits.one(client) is ErrorCode.NONE:
                pass
            files.faults.clear()
            await active(server)
            commits.check(await committed(client))
        passes = server.cleaner.passes
        while server.cleaner.passes == passes:
            assert await commits.one(client) is ErrorCode.NONE
        assert await committed(client) == commits.sent
