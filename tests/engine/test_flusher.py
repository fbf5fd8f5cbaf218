"""Logs of several owners, synced by one thread."""

import asyncio
from collections.abc import Callable, Iterable

from coordinator.engine.durability import Synced
from coordinator.engine.flusher import Flusher
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.sync_plan import SyncPlan
from storage.syncer import Syncer, SyncResult
from tests.storage.faulty_files import FaultyFiles


def log_with_one_record(files: FaultyFiles, name: str) -> PartitionLog:
    log = PartitionLog.open(files, f"/{name}-0", LogConfig())
    log.append_records([Record(-1, 0, b"key", b"value")], 0)
    return log


async def test_only_the_owner_of_a_log_is_told_that_it_was_synced() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    told: list[tuple[str, PartitionLog]] = []

    def owner(name: str) -> Synced:
        def synced(log: PartitionLog, error: StorageError | None) -> None:
            assert error is None
            told.append((name, log))

        return synced

    first, second, gone = (log_with_one_record(files, name) for name in ("first", "second", "gone"))
    third_owner = owner("third")
    for log, synced in ((first, owner("one")), (second, owner("two")), (gone, third_owner)):
        flusher.need(log, synced)
    flusher.kick()
    flusher.forget(third_owner)
    await flusher.drain([first, second, gone])
    assert sorted(told, key=str) == sorted([("one", first), ("two", second)], key=str)
    assert gone.durable_offset == gone.log_end_offset
    flusher.close()


async def test_a_submission_that_fails_fails_its_logs_and_no_later_ones() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    told: dict[PartitionLog, StorageError | None] = {}
    lost, later = (log_with_one_record(files, name) for name in ("lost", "later"))

    def fail(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        flusher.submit = submit
        raise RuntimeError("a defect")

    submit, flusher.submit = flusher.submit, fail
    flusher.need(lost, told.__setitem__)
    flusher.kick()
    flusher.need(later, told.__setitem__)
    await flusher.drain([lost, later])
    assert isinstance(told[lost], StorageError)
    assert lost.failure is not None
    assert told[later] is None
    assert later.durable_offset == later.log_end_offset
    flusher.close()


async def test_a_submission_that_fails_half_way_is_over_once() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    told: list[StorageError | None] = []
    log = log_with_one_record(files, "lost")

    def submit_and_fail(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        flusher.submit = submit
        submit(logs, done)
        raise RuntimeError("a defect")

    submit, flusher.submit = flusher.submit, submit_and_fail
    flusher.need(log, lambda _, error: told.append(error))
    flusher.kick()
    await flusher.drain([log])
    other = log_with_one_record(files, "other")
    flusher.need(other, lambda _, error: told.append(error))
    flusher.kick()
    await flusher.drain([other])
    assert len(told) == 2
    assert told[1] is None
    flusher.close()


async def test_a_log_that_cannot_be_submitted_keeps_no_other_from_being_synced() -> None:
    class Broken(PartitionLog):
        def begin_sync(self) -> SyncPlan | None:
            raise RuntimeError("a defect")

    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    told: dict[PartitionLog, StorageError | None] = {}
    broken, sound = Broken.open(files, "/broken-0", LogConfig()), log_with_one_record(files, "sound")
    broken.append_records([Record(-1, 0, b"key", b"value")], 0)
    for log in (broken, sound):
        flusher.need(log, told.__setitem__)
    flusher.kick()
    await flusher.drain([broken, sound])
    assert isinstance(told[broken], StorageError)
    assert told[sound] is None
    assert sound.durable_offset == sound.log_end_offset
    flusher.close()
