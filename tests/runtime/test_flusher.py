"""Logs of several owners, synced by one thread."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from coordinator.core.interceptors import InterceptorRank
from coordinator.runtime.flusher import Flusher, OnSynced, Submit
from storage.durability import SyncPlan
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.storage_errors import StorageError
from storage.syncer import Syncer, SyncResult
from tests.storage.faulty_files import FaultyFiles


def log_with_one_record(files: FaultyFiles, name: str) -> PartitionLog:
    log = PartitionLog.open(files, f"/{name}-0", LogConfig())
    log.append_records([Record(-1, 0, b"key", b"value")], 0)
    return log


async def test_only_the_owner_of_a_log_is_told_that_it_was_synced() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    results: list[tuple[str, PartitionLog]] = []

    def owner(name: str) -> OnSynced:
        def synced(log: PartitionLog, error: StorageError | None) -> None:
            assert error is None
            results.append((name, log))

        return synced

    first, second, gone = (log_with_one_record(files, name) for name in ("first", "second", "gone"))
    third_owner = owner("third")
    for log, synced in ((first, owner("one")), (second, owner("two")), (gone, third_owner)):
        flusher.request_sync(log, synced)
    flusher.start_sync()
    flusher.remove_listener(third_owner)
    await flusher.drain([first, second, gone])
    assert sorted(results, key=str) == sorted([("one", first), ("two", second)], key=str)
    assert gone.durable_offset == gone.log_end_offset
    flusher.close()


async def test_a_submission_that_fails_fails_its_logs_and_no_later_ones() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    results: dict[PartitionLog, StorageError | None] = {}
    lost, later = (log_with_one_record(files, name) for name in ("lost", "later"))

    def fail(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        flusher.sync_interceptors.remove(intercept)
        raise RuntimeError("a defect")

    def intercept(submit: Submit) -> Submit:
        return fail

    flusher.sync_interceptors.add(InterceptorRank.FAULTS, intercept)
    flusher.request_sync(lost, results.__setitem__)
    flusher.start_sync()
    flusher.request_sync(later, results.__setitem__)
    await flusher.drain([lost, later])
    assert isinstance(results[lost], StorageError)
    assert lost.failure is not None
    assert results[later] is None
    assert later.durable_offset == later.log_end_offset
    flusher.close()


async def test_a_submission_that_fails_half_way_is_over_once() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    results: list[StorageError | None] = []
    log = log_with_one_record(files, "lost")

    def intercept(submit: Submit) -> Submit:
        def submit_and_fail(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
            flusher.sync_interceptors.remove(intercept)
            submit(logs, done)
            raise RuntimeError("a defect")

        return submit_and_fail

    flusher.sync_interceptors.add(InterceptorRank.FAULTS, intercept)
    flusher.request_sync(log, lambda _, error: results.append(error))
    flusher.start_sync()
    await flusher.drain([log])
    other = log_with_one_record(files, "other")
    flusher.request_sync(other, lambda _, error: results.append(error))
    flusher.start_sync()
    await flusher.drain([other])
    assert len(results) == 2
    assert results[1] is None
    flusher.close()


async def test_a_log_that_cannot_be_submitted_keeps_no_other_from_being_synced() -> None:
    class Broken(PartitionLog):
        def begin_sync(self) -> SyncPlan | None:
            raise RuntimeError("a defect")

    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    results: dict[PartitionLog, StorageError | None] = {}
    broken, sound = Broken.open(files, "/broken-0", LogConfig()), log_with_one_record(files, "sound")
    broken.append_records([Record(-1, 0, b"key", b"value")], 0)
    for log in (broken, sound):
        flusher.request_sync(log, results.__setitem__)
    flusher.start_sync()
    await flusher.drain([broken, sound])
    assert isinstance(results[broken], StorageError)
    assert results[sound] is None
    assert sound.durable_offset == sound.log_end_offset
    flusher.close()


async def test_commits_of_clients_answered_by_a_sync_share_the_next_one() -> None:
    """A sync answers two clients, and each sends its next commit in the iteration after. The commit of a third
    client waits already."""
    loop = asyncio.get_running_loop()
    files = FaultyFiles()
    flusher = Flusher(loop, Syncer())
    first, second, waiting = (log_with_one_record(files, name) for name in ("first", "second", "waiting"))
    submitted: list[set[PartitionLog]] = []
    completions: list[Callable[[SyncResult], None]] = []
    all_synced = asyncio.Event()

    def submit(logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        submitted.append(set(logs))
        completions.append(done)
        if len(submitted) == 2:
            all_synced.set()

    def commit_again(log: PartitionLog, error: StorageError | None) -> None:
        loop.call_soon(end_of_iteration, log)

    def end_of_iteration(log: PartitionLog) -> None:
        flusher.request_sync(log, commit_again)
        loop.call_soon(flusher.start_sync)

    flusher.sync_interceptors.add(InterceptorRank.FAULTS, lambda _: submit)
    flusher.request_sync(first, commit_again)
    flusher.request_sync(second, commit_again)
    flusher.start_sync()
    flusher.request_sync(waiting, commit_again)
    completions[0](SyncResult({}, refused=(), full=()))
    await all_synced.wait()
    assert submitted == [{first, second}, {first, second, waiting}]
    flusher.close()


async def test_a_commit_that_waits_alone_is_synced() -> None:
    files = FaultyFiles()
    flusher = Flusher(asyncio.get_running_loop(), Syncer())
    first, waiting = (log_with_one_record(files, name) for name in ("first", "waiting"))
    is_synced = asyncio.Event()
    flusher.request_sync(first, lambda log, error: None)
    flusher.start_sync()
    flusher.request_sync(waiting, lambda log, error: is_synced.set())
    await is_synced.wait()
    assert waiting.durable_offset == waiting.log_end_offset
    flusher.close()


async def test_of_many_logs_that_are_synced_at_once_some_are_told_of_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile the loop continues, with a later sync and with released owners."""
    monkeypatch.setattr("coordinator.runtime.flusher.LOGS_PER_TURN", 5)
    files, loop = FaultyFiles(), asyncio.get_running_loop()
    flusher = Flusher(loop, Syncer())
    logs = [log_with_one_record(files, f"log-{number}") for number in range(15)]
    synced: list[PartitionLog] = []
    turns: list[int] = []

    def count_turn() -> None:
        turns.append(len(synced))
        if len(synced) < len(logs):
            loop.call_soon(count_turn)

    def on_synced(log: PartitionLog, error: StorageError | None) -> None:
        assert error is None
        if not synced:
            loop.call_soon(count_turn)
            flusher.request_sync(later, on_synced)
            flusher.remove_listener(on_gone)
        synced.append(log)

    def on_gone(log: PartitionLog, error: StorageError | None) -> None:
        raise AssertionError("its owner is gone")

    later, gone = log_with_one_record(files, "later"), log_with_one_record(files, "gone")
    for log in logs:
        flusher.request_sync(log, on_synced)
    flusher.request_sync(gone, on_gone)
    flusher.start_sync()
    await flusher.drain([*logs, later, gone])
    assert synced[: len(logs)] == logs
    assert synced[len(logs) :] == [later]
    steps = [after - before for before, after in pairwise([0, *turns])]
    assert max(steps) <= 5
    flusher.close()


async def test_one_submission_covers_a_part_of_many_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each submission takes one step of the event loop. The logs that are left have their turn, in their order."""
    monkeypatch.setattr("coordinator.runtime.flusher.LOGS_PER_SYNC", 4)
    files, syncer = FaultyFiles(), Syncer()
    submitted: list[list[PartitionLog]] = []
    submit = syncer.submit

    def record(logs: Iterable[PartitionLog], on_done: Callable[[SyncResult], None]) -> None:
        submitted.append(list(logs))
        submit(submitted[-1], on_done)

    monkeypatch.setattr(syncer, "submit", record)
    flusher = Flusher(asyncio.get_running_loop(), syncer)
    logs = [log_with_one_record(files, f"log-{number}") for number in range(10)]
    synced: list[PartitionLog] = []
    for log in logs:
        flusher.request_sync(log, lambda log, error: synced.append(log))
    flusher.start_sync()
    await flusher.drain(set(logs))
    assert submitted == [logs[:4], logs[4:8], logs[8:]]
    assert synced == logs
    assert all(log.durable_offset == log.log_end_offset for log in logs)
    flusher.close()
