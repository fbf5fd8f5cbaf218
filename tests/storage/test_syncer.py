"""The syncing thread. Nothing here waits for time: only for callbacks, or for a gate the test holds."""

import threading
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.data_directory import DataDirectory
from storage.durability import SyncPlan
from storage.journal.journal import Journal
from storage.journal.journal_frame import JournalEntry
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.storage_errors import LogContradicted, LogPoisoned, SyncFailed
from storage.syncer import Syncer, SyncResult
from storage.topic_partition import TopicPartition
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFile, FaultyFiles
from tests.storage.numbered_log import contents, expected


class Outcome:
    """Collects one result and lets the test wait for it."""

    def __init__(self) -> None:
        self.results: list[SyncResult] = []
        self._arrived = threading.Event()

    def __call__(self, result: SyncResult) -> None:
        self.results.append(result)
        self._arrived.set()

    def wait(self) -> SyncResult:
        assert self._arrived.wait(60)
        assert len(self.results) == 1
        return self.results[0]


@pytest.fixture
def syncer() -> Iterator[Syncer]:
    syncer = Syncer()
    yield syncer
    syncer.close()


def new_log(files: FaultyFiles, name: str = "orders-0", records: int = 0) -> PartitionLog:
    log = PartitionLog.open(files, f"/data/{name}", LogConfig(segment_bytes=700))
    for number in range(records):
        log.append_records([record(number)])
    return log


def test_what_was_submitted_is_durable_when_the_callback_comes(syncer: Syncer) -> None:
    files = FaultyFiles()
    logs = [new_log(files, f"orders-{number}", 20) for number in range(3)]
    outcome = Outcome()
    syncer.submit(logs, outcome)
    assert outcome.wait().failed == {}
    after = files.crash()
    for log in logs:
        assert log.durable_offset == 20
        assert contents(PartitionLog.open(after, log.directory, log.config, recovery_point=20)) == expected(
            20
        )


def test_nothing_to_sync_is_answered_too(syncer: Syncer) -> None:
    log = new_log(FaultyFiles(), records=1)
    log.sync()
    outcome = Outcome()
    syncer.submit([log], outcome)
    assert outcome.wait().failed == {}


def test_a_defect_in_a_thread_is_told_and_the_thread_goes_on(
    syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(FaultyFiles(), records=1)
    with monkeypatch.context() as patch:
        patch.setattr(SyncPlan, "run", lambda *_: [][0])
        outcome = Outcome()
        syncer.submit([log], outcome)
        failed = outcome.wait().failed
    assert "IndexError" in str(failed[log])
    assert log.failure is not None
    again, outcome = log.reopen(), Outcome()
    syncer.submit([again], outcome)
    assert outcome.wait().failed == {}


def test_a_defect_in_the_thread_of_journals_is_told(syncer: Syncer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"), 100_000)
    log = directory.open_log(TopicPartition("orders", 0), LogConfig(), b"o" * 16, is_journaled=True)
    log.append_records([record(0)])
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", lambda *_: [][0])
        outcome = Outcome()
        syncer.submit([log], outcome)
        assert list(outcome.wait().failed) == [log]
    outcome = Outcome()
    syncer.submit([log.reopen()], outcome)
    assert outcome.wait().failed == {}


def test_a_topic_that_is_deleted_while_it_is_written_keeps_nothing(
    syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"), 100_000)
    orders = TopicPartition("orders", 0)
    log = directory.open_log(orders, LogConfig(), b"o" * 16, is_journaled=True)
    log.append_records([record(0)])
    may_write, write = threading.Event(), Journal.write

    def late(journal: Journal, entries: Sequence[JournalEntry]) -> bool:
        assert may_write.wait(60)
        return write(journal, entries)

    monkeypatch.setattr(Journal, "write", late)
    outcome = Outcome()
    syncer.submit([log], outcome)
    directory.delete_logs({orders: log})
    may_write.set()
    outcome.wait()
    assert not directory.journal.find_unsettled_logs()


def test_a_log_whose_books_disagree_is_reported_and_the_thread_goes_on(syncer: Syncer) -> None:
    files = FaultyFiles()
    bad, good = new_log(files, "bad-0", 2), new_log(files, "good-0", 1)
    bad.log_end_offset -= 1
    outcome = Outcome()
    syncer.submit([bad, good], outcome)
    failed = outcome.wait().failed
    assert list(failed) == [bad]
    assert isinstance(failed[bad], LogContradicted)
    assert (bad.durable_offset, good.durable_offset) == (0, 1)


def test_a_failure_is_reported_for_its_log_only_and_for_ever(syncer: Syncer) -> None:
    files = FaultyFiles()
    bad, good = new_log(files, "bad-0", 1), new_log(files, "good-0", 1)
    files.fail("fdatasync")
    outcome = Outcome()
    syncer.submit([bad, good], outcome)
    failed = outcome.wait().failed
    assert list(failed) == [bad]
    assert isinstance(failed[bad], SyncFailed)
    assert (bad.durable_offset, good.durable_offset) == (0, 1)
    with pytest.raises(LogPoisoned):
        bad.append_records([record(1)])
    again = Outcome()
    syncer.submit([bad, good], again)
    assert list(again.wait().failed) == [bad]


def test_submissions_queued_behind_a_failure_fail_with_it(
    syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FaultyFiles()
    log, other = new_log(files, records=1), new_log(files, "other-0", 1)
    entered, gate = threading.Event(), threading.Event()
    plain = FaultyFile.fdatasync

    def held(file: FaultyFile) -> None:
        entered.set()
        assert gate.wait(60)
        plain(file)

    monkeypatch.setattr(FaultyFile, "fdatasync", held)
    outcomes = [Outcome() for _ in range(4)]
    syncer.submit([log], outcomes[0])
    assert entered.wait(60)
    files.fail("fdatasync")
    for outcome in outcomes[1:3]:
        log.append_records([record(log.log_end_offset)])
        syncer.submit([log], outcome)
    syncer.submit([other], outcomes[3])
    gate.set()
    for outcome in outcomes[:3]:
        assert list(outcome.wait().failed) == [log]
    assert outcomes[3].wait().failed == {}
    assert log.durable_offset == 0
    assert files.calls["fdatasync"] == 2


def test_a_file_is_synced_once_for_all_that_wait_for_it(
    syncer: Syncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FaultyFiles()
    log, first = new_log(files, records=1), new_log(files, "first-0", 1)
    entered, gate = threading.Event(), threading.Event()
    plain = FaultyFile.fdatasync

    def held(file: FaultyFile) -> None:
        entered.set()
        assert gate.wait(60)
        plain(file)

    monkeypatch.setattr(FaultyFile, "fdatasync", held)
    syncer.submit([first], Outcome())
    assert entered.wait(60)
    order: list[int] = []
    last = Outcome()
    for number in range(5):
        log.append_records([record(log.log_end_offset)])
        syncer.submit([log], lambda _, number=number: order.append(number))  # type: ignore[misc]
    syncer.submit([log], last)
    gate.set()
    last.wait()
    assert order == [0, 1, 2, 3, 4]
    assert log.durable_offset == 6
    assert files.calls["fdatasync"] == 2


def test_closing_finishes_what_was_submitted() -> None:
    syncer = Syncer()
    log = new_log(FaultyFiles(), records=3)
    outcomes = [Outcome() for _ in range(5)]
    for outcome in outcomes:
        syncer.submit([log], outcome)
    syncer.close()
    assert [len(outcome.results) for outcome in outcomes] == [1] * 5
    syncer.close()
    with pytest.raises(RuntimeError):
        syncer.submit([log], Outcome())


def test_a_callback_that_raises_does_not_stop_the_others() -> None:
    syncer = Syncer()
    log = new_log(FaultyFiles(), records=1)

    def broken(_: SyncResult) -> None:
        raise KeyError("broken")

    outcome = Outcome()
    syncer.submit([log], broken)
    syncer.submit([log], outcome)
    outcome.wait()
    with pytest.raises(KeyError):
        syncer.close()


@given(
    st.lists(st.sampled_from(["append", "append", "append", "sync", "fail"]), max_size=40),
    st.booleans(),
    st.integers(),
)
def test_no_crash_loses_what_was_durable(steps: list[str], sync_on_roll: bool, seed: int) -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", LogConfig(segment_bytes=700, sync_on_roll=sync_on_roll))
    for step in steps:
        if step == "append":
            log.append_records([record(log.log_end_offset)])
        elif step == "sync":
            log.sync()
            assert log.durable_offset == log.log_end_offset
        elif log.is_dirty:
            files.fail("fdatasync" if log.durable_offset < log.log_end_offset else "fsync_directory")
            with pytest.raises(SyncFailed):
                log.sync()
            log = log.reopen()
    for after in (files.crash(), files.crash(Random(seed)), files.kill()):
        again = PartitionLog.open(after, log.directory, log.config, recovery_point=log.durable_offset)
        end = again.log_end_offset
        assert end >= log.durable_offset
        assert contents(again) == expected(end, again.log_start_offset)
        # A crash before the first sync may keep a second segment without the first, unless rolls sync.
        assert again.log_start_offset == 0 or not (sync_on_roll or log.durable_offset)
