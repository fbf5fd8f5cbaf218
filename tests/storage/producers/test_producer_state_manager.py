"""Producers and aborted transactions of a log: found again after every end that a process can come to."""

import struct
from random import Random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.producers import producer_state_manager
from storage.producers.producer_snapshots import decode_snapshot, find_snapshot_offsets
from storage.producers.producer_state_manager import ProducerStateManager
from storage.record import Record
from storage.storage_errors import StorageError
from storage.transaction_index import (
    decode_transaction_index,
    find_transaction_indexes,
    read_aborted_transactions,
)
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.storage.transactional_log import DIRECTORY, HOUR_MS, LEVEL_ONE, LEVEL_TWO, TransactionalLog

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("data"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("end"), st.integers(1, 3), st.integers(0, 3)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
        st.tuples(st.just("clean stop"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("kill"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("crash"), st.just(0), st.integers(0, 2**16)),
        st.tuples(st.just("failed sync"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def names(files: FaultyFiles) -> list[str]:
    return files.listdir(DIRECTORY)


def snapshot(offset: int) -> str:
    return f"{DIRECTORY}/{offset:020d}.snapshot"


def index(offset: int) -> str:
    return f"{DIRECTORY}/{offset:020d}.txnindex"


def damaged(files: FaultyFiles, number: int) -> FaultyFiles:
    """One kind of file beside the segments is gone, torn, or foreign."""
    for name in names(files):
        if not name.endswith(".snapshot"):
            continue
        data = files.read(f"{DIRECTORY}/{name}")
        if number == 1:
            files.unlink(f"{DIRECTORY}/{name}")
        elif number == 2:
            files.write(f"{DIRECTORY}/{name}", data[:-1])
        elif number == 3:
            files.write(f"{DIRECTORY}/{name}", struct.pack(">h", 9) + data[2:])
    return files


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_log_knows_what_one_that_remembers_everything_does(steps: list[tuple[str, int, int]]) -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.fsync_directory("/")
    ours = TransactionalLog(files)
    recovery_point = 0
    for step, first, second in steps:
        if step == "data":
            ours.data(first, second)
        elif step == "end":
            ours.end(
                first,
                is_committed=bool(second & 1),
                level=LEVEL_TWO if second & 2 else LEVEL_ONE,
                coordinator_epoch=len(ours.model.events),
            )
        elif step == "sync":
            recovery_point = ours.sync()
        elif step == "clean stop":
            ours.log.close()
            recovery_point = ours.log.log_end_offset
            ours.take_up(damaged(files, second), recovery_point, was_clean=True)
        elif step == "kill":
            ours.take_up(damaged(files, second), recovery_point)
        elif step == "crash":
            files = files.crash(Random(second))
            if not files.is_directory(DIRECTORY):
                return
            ours.take_up(files, recovery_point)
        else:
            ours.data(1)
            files.fail("fdatasync")
            with pytest.raises(StorageError):
                ours.log.sync()
            ours.log = ours.log.reopen()
            ours.producers = ProducerStateManager.load(ours.log, HOUR_MS)
            ours.model.cut(ours.log.log_end_offset)
        ours.check()


@given(STEPS)
def test_what_somebody_else_walks_says_the_same(steps: list[tuple[str, int, int]]) -> None:
    files = FaultyFiles()
    ours = TransactionalLog(files)
    for step, first, second in steps:
        if step == "data":
            ours.data(first, second)
        elif step == "end":
            ours.end(first, is_committed=bool(second & 1))
    log = PartitionLog.open(files, DIRECTORY, ours.config)
    fed = ProducerStateManager(log, HOUR_MS)
    walk_from = fed.begin_load()
    half = (walk_from + log.log_end_offset) // 2
    fed.catch_up(half)
    for batch in log.iterate_batches():
        fed.feed_batch(batch)
    fed.finish_load()
    ours.log, ours.producers = log, fed
    ours.check()


def filled(files: FaultyFiles, transactions: int = 12) -> TransactionalLog:
    """Aborted transactions over several segments, and one that stays open."""
    ours = TransactionalLog(files)
    ours.data(9)
    for number in range(transactions):
        ours.data(number % 2)
        ours.end(number % 2, is_committed=number % 3 == 0)
    return ours


def test_a_snapshot_lies_where_each_segment_begins_and_where_the_log_was_stopped() -> None:
    files = FaultyFiles()
    ours = filled(files)
    bases = [segment.base_offset for segment in ours.log.segments]
    assert len(bases) > 4
    assert find_snapshot_offsets(names(files)) == bases[1:]
    ours.log.close()
    end = ours.log.log_end_offset
    assert find_snapshot_offsets(names(files)) == [*bases[1:], end]
    ours.take_up(files, end, was_clean=True)
    ours.data(1)
    ours.log.close()
    ours.take_up(files, end + 1, was_clean=True)
    assert find_snapshot_offsets(names(files)) == [*bases[1:], end + 1]
    ours.check()


def test_after_a_clean_stop_no_batch_of_a_long_segment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state_manager, "RECENT_BYTES", 0)
    files = FaultyFiles()
    ours = filled(files)
    ours.log.close()
    log = PartitionLog.open(
        files, DIRECTORY, ours.config, recovery_point=ours.log.log_end_offset, was_clean=True
    )
    files.calls.clear()
    ours.producers = ProducerStateManager.load(log, HOUR_MS)
    assert files.calls["pread"] == 0
    ours.log = log
    ours.check()
    files.calls.clear()
    log.close()
    assert files.calls["write"] == 0


def test_a_snapshot_of_what_the_log_has_lost_is_not_believed() -> None:
    files = FaultyFiles()
    ours = filled(files)
    ours.log.close()
    (*_, ahead) = find_snapshot_offsets(names(files))
    active = ours.log.segments[-1]
    files.names[active.path].data[20:] = b""
    ours.take_up(files, 0)
    assert ours.log.log_end_offset < ahead
    ours.check()
    assert snapshot(ahead) not in files.crash().names
    ours.sync()
    while ours.log.log_end_offset < ahead:
        ours.plain()
    ours.take_up(files, 0)
    ours.check()


@pytest.mark.parametrize("damage", [b"", b"\0\1" * 17, b"\xff" * 34])
def test_an_index_that_makes_no_sense_is_found_again_in_the_batches(damage: bytes) -> None:
    files = FaultyFiles()
    ours = filled(files)
    ours.log.close()
    path = index(find_transaction_indexes(names(files))[1])
    sound = files.read(path)
    files.write(path, damage or sound + sound)
    ours.take_up(files, ours.log.log_end_offset, was_clean=True)
    ours.check()
    assert files.read(path) == sound


def test_the_indexes_of_what_is_recovered_are_made_anew() -> None:
    files = FaultyFiles()
    ours = filled(files)
    said = {base: files.read(index(base)) for base in find_transaction_indexes(names(files))}
    assert len(said) > 2
    for base in said:
        files.write(index(base), said[base][:20])
    ours.take_up(files, 0)
    ours.check()
    assert {base: files.read(index(base)) for base in said} == said


def test_the_index_of_a_segment_goes_with_it_and_so_do_snapshots_before_the_start() -> None:
    files = FaultyFiles()
    ours = filled(files)
    start = ours.log.segments[3].base_offset
    ours.log.delete_records_before(start + 1)
    kept = [each for each in ours.model.aborted() if each.last_offset > start]
    assert min(find_transaction_indexes(names(files))) >= start
    assert ours.producers.find_aborted_within(start + 1, 2**40) == kept
    assert ours.producers.find_last_stable_offset(ours.log.log_end_offset) == start + 1
    ours.log.close()
    end = ours.log.log_end_offset
    log = PartitionLog.open(
        files, DIRECTORY, ours.config, recovery_point=end, log_start_offset=start + 1, was_clean=True
    )
    again = ProducerStateManager.load(log, HOUR_MS)
    assert again.find_aborted_within(start + 1, 2**40) == [each for each in kept if each.last_offset > start]
    assert again.state.open_transactions == {9: 0}
    assert min(find_snapshot_offsets(names(files))) > start


def test_what_an_older_compaction_left_behind_is_named_by_the_segment_that_has_it() -> None:
    files = FaultyFiles()
    ours = filled(files)
    ours.log.close()
    bases = [segment.base_offset for segment in ours.log.segments]
    stray = bases[1] + 1
    files.replace(index(bases[1]), index(stray))
    ours.take_up(files, ours.log.log_end_offset, was_clean=True)
    ours.check()
    assert stray not in find_transaction_indexes(names(files))
    assert list(read_aborted_transactions(files, DIRECTORY)) == ours.model.aborted()


def each_call(operation: str) -> list[tuple[str, int, bool]]:
    return [(operation, nth, is_crash) for nth in (1, 2, 3, 4, 5, 7, 9, 12) for is_crash in (False, True)]


@pytest.mark.parametrize(
    ("operation", "nth", "is_crash"),
    [
        case
        for operation in (
            "open",
            "write",
            "read",
            "unlink",
            "listdir",
            "replace",
            "fdatasync",
            "fsync_directory",
        )
        for case in each_call(operation)
    ],
)
@pytest.mark.parametrize("torn_bytes", [0, 15])
def test_any_call_may_fail(operation: str, nth: int, is_crash: bool, torn_bytes: int) -> None:
    files = FaultyFiles()
    ours = filled(files, 4)
    recovery_point = ours.sync()
    promised = len(ours.model.events)
    if is_crash:
        files.crash_at(operation, nth, torn_bytes)
    else:
        files.fail(operation, nth, torn_bytes=torn_bytes)
    try:
        for number in range(6):
            ours.data(number % 2)
            ours.end(number % 2, is_committed=False)
        ours.log.close()
    except (StorageError, OSError, CrashError):
        pass
    files.faults.clear()
    survivor = files.crash(Random(nth))
    events = list(ours.model.events)
    ours.take_up(survivor, recovery_point)
    assert len(ours.model.events) >= promised
    assert ours.model.events == events[: len(ours.model.events)]
    ours.check()


@pytest.mark.parametrize("open_call", ["open", "write", "read", "unlink", "replace", "fsync_directory"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_opening_may_fail_and_is_tried_again(open_call: str, nth: int) -> None:
    files = FaultyFiles()
    ours = filled(files)
    for base in find_transaction_indexes(names(files)):
        files.write(index(base), b"torn")
    files.unlink(snapshot(ours.log.segments[-1].base_offset))
    files.fail(open_call, nth)
    try:
        ours.take_up(files, 0)
    except (StorageError, OSError):
        ours.take_up(files, 0)
    ours.check()


def test_a_hundred_thousand_aborted_transactions_take_little() -> None:
    files = FaultyFiles()
    ours = TransactionalLog(files, LogConfig())
    for producer_id in range(100_000):
        offset = 2 * producer_id
        ours.producers.aborted.add(
            next(
                iter(
                    decode_transaction_index(
                        struct.pack(">hqqqq", 0, producer_id, offset, offset + 1, offset + 2), ""
                    )
                )
            )
        )
    began = process_time()
    for offset in range(0, 200_000, 100):
        assert len(ours.producers.find_aborted_within(offset, offset + 10)) == 5
    assert process_time() - began < 2
    assert len(ours.producers.aborted) * 32 < 4_000_000


def test_a_snapshot_has_kafkas_form() -> None:
    files = FaultyFiles()
    ours = TransactionalLog(files)
    ours.data(7, 2)
    ours.data(8, 1, is_transactional=False)
    ours.end(5, is_committed=True, coordinator_epoch=3)
    ours.log.close()
    data = files.read(snapshot(4))
    assert data[:2] == b"\0\1"
    assert [(key, entry.epoch) for key, entry in decode_snapshot(data, "")] == [(7, 0), (8, 0), (5, 0)]
    assert data[6:].hex() == "00000003" + "".join(
        part.hex()
        for part in (
            struct.pack(">qhiqiqiq", 7, 0, 1, 1, 1, 0, -1, 0),
            struct.pack(">qhiqiqiq", 8, 0, 0, 2, 0, 2, -1, -1),
            struct.pack(">qhiqiqiq", 5, 0, -1, -1, 0, 3, 3, -1),
        )
    )


def test_a_log_without_producers_costs_a_snapshot_of_ten_bytes_a_segment() -> None:
    files = FaultyFiles()
    ours = TransactionalLog(files)
    for _ in range(20):
        ours.log.append(encode_batch([Record(-1, 0, b"key", b"x" * 50)]))
    kept = find_snapshot_offsets(names(files))
    assert kept == [segment.base_offset for segment in ours.log.segments[1:]]
    assert {files.size(snapshot(offset)) for offset in kept} == {10}
    assert not find_transaction_indexes(names(files))
