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
    """One kind of file beside the segments is missing, torn, or from another log."""
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
    transactions = TransactionalLog(files)
    recovery_point = 0
    for step, first, second in steps:
        if step == "data":
            transactions.data(first, second)
        elif step == "end":
            transactions.end(
                first,
                is_committed=bool(second & 1),
                level=LEVEL_TWO if second & 2 else LEVEL_ONE,
                coordinator_epoch=len(transactions.model.events),
            )
        elif step == "sync":
            recovery_point = transactions.sync()
        elif step == "clean stop":
            transactions.log.close()
            recovery_point = transactions.log.log_end_offset
            transactions.take_up(damaged(files, second), recovery_point, was_clean=True)
        elif step == "kill":
            transactions.take_up(damaged(files, second), recovery_point)
        elif step == "crash":
            files = files.crash(Random(second))
            if not files.is_directory(DIRECTORY):
                return
            transactions.take_up(files, recovery_point)
        else:
            transactions.data(1)
            files.fail("fdatasync")
            with pytest.raises(StorageError):
                transactions.log.sync()
            transactions.log = transactions.log.reopen()
            transactions.producers = ProducerStateManager.load(transactions.log, HOUR_MS)
            transactions.model.cut(transactions.log.log_end_offset)
        transactions.check()


@given(STEPS)
def test_what_somebody_else_walks_says_the_same(steps: list[tuple[str, int, int]]) -> None:
    files = FaultyFiles()
    transactions = TransactionalLog(files)
    for step, first, second in steps:
        if step == "data":
            transactions.data(first, second)
        elif step == "end":
            transactions.end(first, is_committed=bool(second & 1))
    log = PartitionLog.open(files, DIRECTORY, transactions.config)
    fed = ProducerStateManager(log, HOUR_MS)
    walk_from = fed.begin_load()
    half = (walk_from + log.log_end_offset) // 2
    fed.catch_up(half)
    for batch in log.iterate_batches():
        fed.feed_batch(batch)
    fed.finish_load()
    transactions.log, transactions.producers = log, fed
    transactions.check()


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
    transactions = filled(files)
    bases = [segment.base_offset for segment in transactions.log.segments]
    assert len(bases) > 4
    assert find_snapshot_offsets(names(files)) == bases[1:]
    transactions.log.close()
    end = transactions.log.log_end_offset
    assert find_snapshot_offsets(names(files)) == [*bases[1:], end]
    transactions.take_up(files, end, was_clean=True)
    transactions.data(1)
    transactions.log.close()
    transactions.take_up(files, end + 1, was_clean=True)
    assert find_snapshot_offsets(names(files)) == [*bases[1:], end + 1]
    transactions.check()


def test_after_a_clean_stop_no_batch_of_a_long_segment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state_manager, "RECENT_BYTES", 0)
    files = FaultyFiles()
    transactions = filled(files)
    transactions.log.close()
    log = PartitionLog.open(
        files, DIRECTORY, transactions.config, recovery_point=transactions.log.log_end_offset, was_clean=True
    )
    files.calls.clear()
    transactions.producers = ProducerStateManager.load(log, HOUR_MS)
    assert files.calls["pread"] == 0
    transactions.log = log
    transactions.check()
    files.calls.clear()
    log.close()
    assert files.calls["write"] == 0


def test_a_snapshot_of_what_the_log_has_lost_is_not_believed() -> None:
    files = FaultyFiles()
    transactions = filled(files)
    transactions.log.close()
    (*_, ahead) = find_snapshot_offsets(names(files))
    active = transactions.log.segments[-1]
    files.names[active.path].data[20:] = b""
    transactions.take_up(files, 0)
    assert transactions.log.log_end_offset < ahead
    transactions.check()
    assert snapshot(ahead) not in files.crash().names
    transactions.sync()
    while transactions.log.log_end_offset < ahead:
        transactions.plain()
    transactions.take_up(files, 0)
    transactions.check()


@pytest.mark.parametrize("damage", [b"", b"\0\1" * 17, b"\xff" * 34])
def test_an_index_that_makes_no_sense_is_found_again_in_the_batches(damage: bytes) -> None:
    files = FaultyFiles()
    transactions = filled(files)
    transactions.log.close()
    path = index(find_transaction_indexes(names(files))[1])
    sound = files.read(path)
    files.write(path, damage or sound + sound)
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    transactions.check()
    assert files.read(path) == sound


def test_the_indexes_of_what_is_recovered_are_made_anew() -> None:
    files = FaultyFiles()
    transactions = filled(files)
    said = {base: files.read(index(base)) for base in find_transaction_indexes(names(files))}
    assert len(said) > 2
    for base in said:
        files.write(index(base), said[base][:20])
    transactions.take_up(files, 0)
    transactions.check()
    assert {base: files.read(index(base)) for base in said} == said


def test_the_index_of_a_segment_goes_with_it_and_so_do_snapshots_before_the_start() -> None:
    files = FaultyFiles()
    transactions = filled(files)
    start = transactions.log.segments[3].base_offset
    transactions.log.delete_records_before(start + 1)
    kept = [each for each in transactions.model.aborted() if each.last_offset > start]
    assert min(find_transaction_indexes(names(files))) >= start
    assert transactions.producers.find_aborted_within(start + 1, 2**40) == kept
    assert transactions.producers.find_last_stable_offset(transactions.log.log_end_offset) == start + 1
    transactions.log.close()
    end = transactions.log.log_end_offset
    log = PartitionLog.open(
        files, DIRECTORY, transactions.config, recovery_point=end, log_start_offset=start + 1, was_clean=True
    )
    again = ProducerStateManager.load(log, HOUR_MS)
    assert again.find_aborted_within(start + 1, 2**40) == [each for each in kept if each.last_offset > start]
    assert again.state.open_transactions == {9: 0}
    assert min(find_snapshot_offsets(names(files))) > start


def test_what_an_older_compaction_left_behind_is_named_by_the_segment_that_has_it() -> None:
    files = FaultyFiles()
    transactions = filled(files)
    transactions.log.close()
    bases = [segment.base_offset for segment in transactions.log.segments]
    stray = bases[1] + 1
    files.replace(index(bases[1]), index(stray))
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    transactions.check()
    assert stray not in find_transaction_indexes(names(files))
    assert list(read_aborted_transactions(files, DIRECTORY)) == transactions.model.aborted()


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
    transactions = filled(files, 4)
    recovery_point = transactions.sync()
    promised = len(transactions.model.events)
    if is_crash:
        files.crash_at(operation, nth, torn_bytes)
    else:
        files.fail(operation, nth, torn_bytes=torn_bytes)
    try:
        for number in range(6):
            transactions.data(number % 2)
            transactions.end(number % 2, is_committed=False)
        transactions.log.close()
    except (StorageError, OSError, CrashError):
        pass
    files.faults.clear()
    survivor = files.crash(Random(nth))
    events = list(transactions.model.events)
    transactions.take_up(survivor, recovery_point)
    assert len(transactions.model.events) >= promised
    assert transactions.model.events == events[: len(transactions.model.events)]
    transactions.check()


@pytest.mark.parametrize("open_call", ["open", "write", "read", "unlink", "replace", "fsync_directory"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_opening_may_fail_and_is_tried_again(open_call: str, nth: int) -> None:
    files = FaultyFiles()
    transactions = filled(files)
    for base in find_transaction_indexes(names(files)):
        files.write(index(base), b"torn")
    files.unlink(snapshot(transactions.log.segments[-1].base_offset))
    files.fail(open_call, nth)
    try:
        transactions.take_up(files, 0)
    except (StorageError, OSError):
        transactions.take_up(files, 0)
    transactions.check()


def test_a_hundred_thousand_aborted_transactions_take_little() -> None:
    files = FaultyFiles()
    transactions = TransactionalLog(files, LogConfig())
    for producer_id in range(100_000):
        offset = 2 * producer_id
        transactions.producers.aborted.add(
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
        assert len(transactions.producers.find_aborted_within(offset, offset + 10)) == 5
    assert process_time() - began < 2
    assert len(transactions.producers.aborted) * 32 < 4_000_000


def test_a_snapshot_has_kafkas_form() -> None:
    files = FaultyFiles()
    transactions = TransactionalLog(files)
    transactions.data(7, 2)
    transactions.data(8, 1, is_transactional=False)
    transactions.end(5, is_committed=True, coordinator_epoch=3)
    transactions.log.close()
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
    transactions = TransactionalLog(files)
    for _ in range(20):
        transactions.log.append(encode_batch([Record(-1, 0, b"key", b"x" * 50)]))
    kept = find_snapshot_offsets(names(files))
    assert kept == [segment.base_offset for segment in transactions.log.segments[1:]]
    assert {files.size(snapshot(offset)) for offset in kept} == {10}
    assert not find_transaction_indexes(names(files))
