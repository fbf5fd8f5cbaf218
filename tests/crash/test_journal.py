"""Logs with a journal through repeated crashes: acknowledged records stay at their offsets.

A life opens a data directory, or some of its logs, with or without a journal. It appends to several logs in
small iterations, submits and settles them, checkpoints, compacts, deletes records and topics, recreates topics,
and survives failing calls. It ends with a clean stop, or at any file-system call by a kill or by a power cut. A
power cut keeps any part of the unsynced data in segments and journal.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from storage.batch import assign_offsets, encode_batch
from storage.compaction.compaction import Compaction, LogToClean
from storage.compaction.compaction_filter import CompactionTerms
from storage.data_directory import CLEAN_MARKER, DataDirectory, run_steps
from storage.journal import journal
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.record import Record
from storage.segment import LogSegment
from storage.storage_errors import StorageError, SyncFailed
from storage.topic_partition import TopicPartition
from tests.crash.late_worker import LateSyncer, results
from tests.storage.faulty_files import CrashError, FaultyFiles

META = MetaProperties("cluster", 1, "directory")
NAMES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("__consumer_offsets", 7)]
COMPACTED = NAMES[2]
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
COMPACTED_CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=150, cleanup_policy="compact", sync_on_roll=True
)
JOURNAL_FILE_BYTES = 4096
LIVES = 4
SEEDS = int(os.environ.get("CRASH_LIVES", "400"))
"""How many data directories live, each some lives."""
SEEDS_IN_A_TEST = 50


@pytest.fixture(autouse=True)
def _much_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_PENDING_BYTES", 600)


class Known:
    """What is known of a log, whichever life appended it."""

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.is_deleted = False
        """Whether the catalogue says so: a start finishes it."""
        self.is_cleared = False
        """Whether the name is free of an earlier topic's directory and checkpoint entries."""
        self.values: list[bytes] = []
        """The last appended value by offset."""
        self.acknowledged = 0
        self.start = 0

    def check(self, log: PartitionLog, is_compacted: bool) -> None:
        """Check that the log holds only appended values and all acknowledged ones."""
        assert self.acknowledged <= log.log_end_offset <= len(self.values), log.directory
        assert log.log_start_offset <= self.start
        found = {item.offset: item for batch in log.iterate_batches() for item in batch.records()}
        for offset, item in found.items():
            assert item.value == self.values[offset], (log.directory, offset)
        # Files of records that were being deleted may come back, in any order.
        wanted = range(self.start, log.log_end_offset)
        if is_compacted:
            # The newest record of each key, at the least.
            newest = {offset % KEYS: offset for offset in wanted}
            wanted_offsets = set(newest.values())
        else:
            wanted_offsets = set(wanted)
        assert wanted_offsets <= found.keys(), (log.directory, sorted(wanted_offsets - found.keys())[:5])


KEYS = 5
END = object()


def record(offset: int, value: bytes) -> Record:
    return Record(-1, 1000 + offset, b"k%d" % (offset % KEYS), value)


class Life:
    """One process, from its start to its end."""

    def __init__(self, files: FaultyFiles, known: dict[TopicPartition, Known], random: Random) -> None:
        self._files = files
        self._known = known
        self._random = random
        self._late = LateSyncer(random)
        self._logs: dict[TopicPartition, PartitionLog] = {}

    def open(self) -> None:
        """Check the invariants of the found state."""
        self._is_journaled = self._random.random() < 0.8
        file_bytes = JOURNAL_FILE_BYTES if self._is_journaled else 0
        self._directory = DataDirectory.open(self._files, "/data", META, file_bytes)
        for name in NAMES:
            if self._known[name].is_deleted:
                self._delete(name, None)
        # The other logs stay closed: the journal keeps their entries.
        names = NAMES if self._random.random() < 0.8 else self._random.sample(NAMES, 2)
        for name in names:
            self._open_log(name)
        if len(names) == len(NAMES):
            self._directory.drop_deleted_logs()
        if not self._directory.was_clean and self._random.random() < 0.7:
            self._directory.write_checkpoints(self._logs)

    def _open_log(self, name: TopicPartition) -> None:
        config = COMPACTED_CONFIG if name == COMPACTED else CONFIG
        # What a crash took away of the file with its id, the catalogue knows.
        topic_id = self._known[name].topic_id
        if not self._known[name].is_cleared:  # as a catalogue does before it opens a new topic
            run_steps(self._directory.remove_former_topics([name], topic_id))
            self._known[name].is_cleared = True
        log = self._directory.open_log(name, config, topic_id, is_journaled=self._is_journaled)
        self._take(name, log)

    def _delete(self, name: TopicPartition, log: PartitionLog | None) -> None:
        self._known[name].is_deleted = True
        self._directory.delete_logs({name: log})
        self._known[name] = Known(self._random.randbytes(16))

    def _take(self, name: TopicPartition, log: PartitionLog) -> None:
        self._logs[name] = log
        known = self._known[name]
        known.check(log, name == COMPACTED)
        del known.values[log.log_end_offset :]

    def work(self, iterations: int) -> None:
        """Run iterations of the loop and the background work."""
        for _ in range(iterations):
            if self._logs:  # all of them may have been left closed
                self._random.choice([self._append, self._append, self._append, self._other])()
            self._late.work_some()

    def _append(self) -> None:
        some = self._random.sample(sorted(self._logs), self._random.randrange(1, len(self._logs) + 1))
        written = []
        for name in some:
            log = self._sound(name)
            try:
                for _ in range(self._random.randrange(1, 4)):
                    self._append_to(name, log)
            except StorageError:
                continue  # refused: nothing of the batch is in the log
            written.append(log)
        self._submit(written)

    def _append_to(self, name: TopicPartition, log: PartitionLog) -> None:
        values = self._known[name].values
        del values[log.log_end_offset :]
        size = self._random.choice([10, 10, 10, 700])
        count = self._random.randrange(1, 4)
        start = log.log_end_offset
        made = [self._random.randbytes(size) for _ in range(count)]
        values += made
        log.append(encode_batch([record(start + number, value) for number, value in enumerate(made)]))

    def _submit(self, logs: list[PartitionLog]) -> None:
        """Until each log is durable, or has failed; then that is acknowledged."""
        ends = {log: log.log_end_offset for log in logs}
        while logs:
            found, done = results()
            self._late.syncer.submit(logs, done)
            self._late.work_until(found)
            (result,) = found
            for name, log in self._logs.items():
                if log in logs and log not in result.failed and log not in result.refused:
                    assert log.durable_offset >= ends[log]
                    self._known[name].acknowledged = max(self._known[name].acknowledged, ends[log])
            if result.full:
                self._late.syncer.settle_full_journals(result.full)
            logs = list(result.refused)

    def _sound(self, name: TopicPartition) -> PartitionLog:
        """Return the log, opened again if it had failed."""
        while self._logs[name].failure is not None:
            with suppress(StorageError, OSError):
                self._take(name, self._logs[name].reopen())
        return self._logs[name]

    def _other(self) -> None:
        name = self._random.choice(sorted(self._logs))
        log = self._sound(name)
        doing = self._random.choice(
            ["settle", "checkpoint", "delete", "compact", "fail", "keep up", "delete topic"]
        )
        try:
            if doing == "settle":
                self._late.syncer.settle_logs([log])
            elif doing == "checkpoint":
                self._directory.write_checkpoints(self._logs)
            elif doing == "delete" and log.durable_offset > log.log_start_offset:
                known = self._known[name]
                known.start = self._random.randrange(log.log_start_offset, log.durable_offset + 1)
                log.delete_records_before(known.start)
                self._directory.write_checkpoints(self._logs)
            elif doing == "compact":
                if COMPACTED in self._logs:
                    self._compact(self._sound(COMPACTED))
            elif doing == "fail":
                operation = self._random.choice(["write", "write_at", "fdatasync", "open", "any"])
                error = self._random.choice([errno.EIO, errno.ENOSPC])
                self._files.fail(
                    operation, self._random.randrange(1, 12), error, times=self._random.randrange(1, 4)
                )
            elif doing == "keep up":
                self._directory.journal.run_maintenance()
            elif doing == "delete topic" and name != COMPACTED and self._random.random() < 0.5:
                self._logs.pop(name)
                self._delete(name, log)
                self._open_log(name)
        except (StorageError, OSError):
            pass  # the disk rejected the call; the next iteration finds the remaining state

    def _compact(self, log: PartitionLog) -> None:
        end_offset = log.log_start_offset
        for before, segment in zip(log.segments, log.segments[1:], strict=False):
            assert before.base_offset < segment.base_offset
            if segment.base_offset <= log.compactable_offset:
                end_offset = segment.base_offset
        if end_offset <= log.log_start_offset:
            return
        todo = LogToClean(log.log_start_offset, end_offset, 0, 1, False)
        steps = Compaction(log, todo, CompactionTerms(0, 10**15, lambda *_: False)).iterate_steps()
        try:
            step = next(steps, END)
            while step is not END:
                try:
                    if callable(step):
                        step()
                except OSError as error:
                    step = steps.throw(error)
                else:
                    step = next(steps, END)
        finally:
            steps.close()

    def stop(self) -> None:
        """A clean stop, which leaves no journal, unless a log could not be opened."""
        self._late.syncer.close()
        for name in sorted(self._logs):
            self._sound(name)
        failed = [name for name in NAMES if name not in self._logs]
        self._directory.close(self._logs, failed)
        for name, log in self._logs.items():
            self._known[name].acknowledged = log.log_end_offset
        assert self._files.exists(f"/data/{CLEAN_MARKER}") != bool(failed)
        assert failed or not self._files.exists("/data/journal")


def lives(seed: int, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Lives of one data directory, one after another; how each ended."""
    random = Random(seed)
    patch.setattr(journal, "create_run_id", lambda: random.randbytes(8))
    files = FaultyFiles()
    known = {name: Known(random.randbytes(16)) for name in NAMES}
    for _ in range(LIVES):
        if random.random() < 0.8:
            files.crash_at("any", random.randrange(20, 400), torn_bytes=random.randrange(60))
        life = Life(files, known, random)
        try:
            life.open()
            life.work(random.randrange(1, 25))
            if random.random() < 0.5:
                files.faults.clear()
                life.stop()
                yield "stopped"
            else:
                yield "abandoned"
        except CrashError:
            yield "crashed"
        how = random.choice(["power", "some of it", "kill"])
        files = files.kill() if how == "kill" else files.crash(random if how == "some of it" else None)
    last = Life(files, known, random)
    last.open()


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_IN_A_TEST))
def test_nothing_acknowledged_is_lost(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [end for seed in range(first, first + SEEDS_IN_A_TEST) for end in lives(seed, monkeypatch)]
    assert {"stopped", "abandoned", "crashed"} <= set(ends)


def submitted(log: PartitionLog) -> None:
    """What was appended goes to the journal, or is synced."""
    late, (found, done) = LateSyncer(Random(0)), results()
    late.syncer.submit([log], done)
    late.work_until(found)
    assert not found[0].failed
    assert not found[0].refused


@pytest.mark.parametrize("is_settled", [False, True])
def test_what_is_lost_takes_with_it_what_came_after(is_settled: bool) -> None:
    """A compacted log may have gaps between segments.

    One segment was left unsynced, and the disk has a part of the next.
    """
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META, JOURNAL_FILE_BYTES)
    log = directory.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16, is_journaled=True)
    log.append(encode_batch([record(0, b"promised")]))
    submitted(log)
    if is_settled:
        log.sync()
    log.append(encode_batch([record(1, bytes(500))]))
    assert log.append(encode_batch([record(2, bytes(500))])).is_rolled
    last = log.segments[-1].path
    files.names[last].persist()
    files.fsync_directory(log.directory)
    after = DataDirectory.open(files.crash(), "/data", META, 0)
    if is_settled:
        after.journal.drop_log(
            next(iter(after.journal.find_unsettled_logs()))
        )  # its frames were written over
    found = after.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16)
    offsets = [item.offset for batch in found.iterate_batches() for item in batch.records()]
    assert offsets == list(range(len(offsets)))
    assert offsets


def test_what_was_promised_is_put_between_segments() -> None:
    """A segment was left behind with the journal alone standing for it, and the disk has the next one."""
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META, JOURNAL_FILE_BYTES)
    log = directory.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16, is_journaled=True)
    for offset, size in enumerate([10, 500]):
        log.append(encode_batch([record(offset, bytes(size))]))
        submitted(log)
    assert log.append(encode_batch([record(2, bytes(500))])).is_rolled
    files.names[log.segments[-1].path].persist()
    files.fsync_directory(log.directory)
    after = DataDirectory.open(files.crash(), "/data", META, 0)
    found = after.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16)
    assert [item.offset for batch in found.iterate_batches() for item in batch.records()][:2] == [0, 1]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_holes_of_another_broker_stay_holes(is_reopened: bool) -> None:
    """Between segments behind the recovery point: until that is on record past them, the journal gets nothing."""
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META, 0)
    log = directory.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16)
    log.append(encode_batch([record(0, b"before")]))
    data = assign_offsets(encode_batch([record(5, b"behind")]), 5, 0, None, None)
    LogSegment.create(files, log.directory, 5).append(data, 5, 5, 1005, 150)
    files = files.kill()
    directory = DataDirectory.open(files, "/data", META, JOURNAL_FILE_BYTES)
    log = directory.open_log(COMPACTED, COMPACTED_CONFIG, b"c" * 16, is_journaled=True)
    log.sync()
    if is_reopened:
        log.poison(SyncFailed(log.directory, "the disk refused"))
        log = log.reopen()
    log.append(encode_batch([record(6, b"new")]))
    submitted(log)
    found = DataDirectory.open(files.crash(), "/data", META, 0).open_log(
        COMPACTED, COMPACTED_CONFIG, b"c" * 16
    )
    assert [item.offset for batch in found.iterate_batches() for item in batch.records()] == [0, 5, 6]


def test_files_for_topics_that_are_gone_do_not_pile_up() -> None:
    """A daemon that is killed each time, after its topic was deleted."""
    files = FaultyFiles()
    for life in range(5):
        directory = DataDirectory.open(files, "/data", META, JOURNAL_FILE_BYTES)
        directory.drop_deleted_logs()
        directory.journal.run_maintenance()
        log = directory.open_log(NAMES[0], CONFIG, bytes([life]) * 16, is_journaled=True)
        log.append(encode_batch([record(0, b"one")]))
        submitted(log)
        assert len(files.listdir("/data/journal")) == 1
        directory.delete_logs({NAMES[0]: log})
        files = files.kill()


def test_a_topic_made_anew_gets_nothing_of_the_one_before() -> None:
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META, JOURNAL_FILE_BYTES)
    for life, count in enumerate([5, 2]):
        log = directory.open_log(NAMES[0], CONFIG, bytes([life]) * 16, is_journaled=True)
        for offset in range(count):
            log.append(encode_batch([record(offset, b"of life %d" % life)]))
        submitted(log)
        if not life:
            directory.delete_logs({NAMES[0]: log})
    for after in (files.kill(), files.crash()):
        found = DataDirectory.open(after, "/data", META, 0).open_log(NAMES[0], CONFIG, bytes([1]) * 16)
        assert [item.value for batch in found.iterate_batches() for item in batch.records()] == [
            b"of life 1"
        ] * 2
