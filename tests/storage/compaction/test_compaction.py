from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from storage.batch import encode_batch
from storage.compaction.compaction import Compaction, find_log_to_clean
from storage.compaction.compaction_filter import CompactionTerms
from storage.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from storage.files import remove_directory
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.storage_errors import LogClosed, LogPoisoned
from tests.executed_code import count_bytecodes
from tests.storage.compaction.compacting import (
    ABORT,
    COMMIT,
    committed,
    compact,
    marker,
    records,
    run,
    stored,
    values,
)
from tests.storage.faulty_files import FaultyFiles

HOUR_MS = 3_600_000
CONFIG = LogConfig(
    segment_bytes=400, index_interval_bytes=100, cleanup_policy="compact", delete_retention_ms=HOUR_MS
)


def opened(files: FaultyFiles | None = None, config: LogConfig = CONFIG) -> PartitionLog:
    files = files or FaultyFiles()
    return PartitionLog.open(files, "/log-0", config)


def reopened(log: PartitionLog, files: FaultyFiles | None = None) -> PartitionLog:
    assert isinstance(log.files, FaultyFiles)
    return PartitionLog.open(
        files or log.files.kill(), "/log-0", log.config, recovery_point=log.durable_offset
    )


def put(log: PartitionLog, key: str, value: str | None, codec: int = NONE) -> int:
    raw = None if value is None else value.encode()
    return log.append(encode_batch([Record(-1, 1000, key.encode(), raw)], codec=codec)).base_offset


def fill(log: PartitionLog, count: int = 30, keys: int = 5) -> None:
    for number in range(count):
        put(log, f"key-{number % keys}", f"value-{number}")


def test_the_latest_value_of_each_key_stays_at_its_offset() -> None:
    log = opened()
    fill(log)
    before, end = values(log), log.log_end_offset
    active = log.segments[-1].base_offset
    done = compact(log)
    assert done.end_offset == active
    assert done.bytes_after < done.bytes_before
    after = values(log)
    assert after.items() <= before.items()
    sealed = [offset for offset in after if offset < active]
    keys = [after[offset][0] for offset in sealed]
    assert len(keys) == len(set(keys)) == 5
    assert sealed == list(range(active - 5, active))
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert values(reopened(log)) == after


def test_small_neighbours_become_one_segment_and_large_ones_stay_apart() -> None:
    log = opened()
    fill(log, 60)
    many = len(log.segments)
    compact(log)
    compact(log)
    assert len(log.segments) < many // 2
    for first, second in pairwise(log.segments):
        assert first.size <= CONFIG.segment_bytes
        assert first.base_offset < second.base_offset
    unique = opened()
    for number in range(60):
        put(unique, f"key-{number}", "value")
    names = [segment.base_offset for segment in unique.segments]
    compact(unique)
    assert [segment.base_offset for segment in unique.segments] == names


def test_passes_with_nothing_new_come_to_an_end() -> None:
    log = opened()
    fill(log)
    end = compact(log).end_offset
    # The second compaction merges the segments that the first one shrank.
    compact(log)
    bytes_before = [batch.data for batch in stored(log)]
    assert find_log_to_clean(log, end, log.log_end_offset, 0).dirty_bytes == 0
    compact(log, 0)
    assert [batch.data for batch in stored(log)] == bytes_before


def test_a_tombstone_removes_older_values_at_once_and_itself_after_its_grace_period() -> None:
    log = opened()
    put(log, "gone", "value")
    put(log, "gone", None)
    fill(log)
    cleaned_to = compact(log, now_ms=0).end_offset
    assert [value for key, value in values(log).values() if key == b"gone"] == [None]
    fill(log)
    cleaned_to = compact(log, cleaned_to, now_ms=HOUR_MS - 1).end_offset
    assert (b"gone", None) in values(log).values()
    fill(log)
    compact(log, cleaned_to, now_ms=HOUR_MS)
    assert b"gone" not in {key for key, _ in values(log).values()}
    assert b"gone" not in committed(reopened(log))


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_batches_keep_their_codec_and_what_survives_of_their_records(codec: int) -> None:
    log = opened()
    several = [Record(-1, 1000 + number, b"name-%d" % number, b"v%d" % number) for number in range(4)]
    log.append(encode_batch(several, codec=codec))
    put(log, "name-1", "newer", codec)
    fill(log, 40, keys=1)
    compact(log)
    first = next(stored(log))
    assert first.header.codec == codec
    assert [(record.offset, record.timestamp_ms, record.key) for record in first.records()] == [
        (0, 1000, b"name-0"),
        (2, 1002, b"name-2"),
        (3, 1003, b"name-3"),
    ]


def transaction(log: PartitionLog, producer_id: int, key: str, value: str) -> None:
    record = Record(-1, 1000, key.encode(), value.encode())
    log.append(encode_batch([record], producer_id=producer_id, base_sequence=0, is_transactional=True))


def end_transaction(log: PartitionLog, producer_id: int, kind: int) -> None:
    log.append(encode_batch([marker(kind)], producer_id=producer_id, is_transactional=True, is_control=True))


def test_what_was_aborted_goes_and_supersedes_nothing() -> None:
    log = opened()
    put(log, "key", "kept")
    transaction(log, 7, "key", "aborted")
    end_transaction(log, 7, ABORT)
    fill(log, keys=1)
    compact(log)
    assert committed(log)[b"key"] == b"kept"
    assert b"aborted" not in {value for _, value in values(log).values()}


def test_a_marker_stays_while_a_record_of_its_transaction_does_and_a_grace_period_longer() -> None:
    log = opened()
    transaction(log, 7, "key", "first")
    end_transaction(log, 7, COMMIT)
    fill(log, keys=1)
    cleaned_to = compact(log, now_ms=0).end_offset
    assert committed(reopened(log))[b"key"] == b"first"

    def markers() -> int:
        return sum(batch.header.is_control for batch in log.iterate_batches())

    put(log, "key", "second")
    fill(log, keys=1)
    for now_ms, expected in ((9 * HOUR_MS, 1), (10 * HOUR_MS, 1), (11 * HOUR_MS - 1, 1), (11 * HOUR_MS, 0)):
        cleaned_to = compact(log, cleaned_to, now_ms=now_ms).end_offset
        assert markers() == expected
        fill(log, keys=1)
    assert committed(reopened(log))[b"key"] == b"second"


def test_a_batch_that_was_emptied_holds_no_transaction_open() -> None:
    log = opened()
    # It is the last of a segment that is full: its range stays there.
    while log.segments[-1].size + 250 < CONFIG.segment_bytes:
        put(log, f"other-{log.log_end_offset}", "value")
    transaction(log, 7, "key", "superseded")
    put(log, "long", "y" * 200)
    assert len(log.segments) == 2
    end_transaction(log, 7, COMMIT)
    put(log, "key", "newest")
    cleaned_to = 0
    for hours in (0, 25, 50):
        fill(log, keys=1)
        cleaned_to = compact(log, cleaned_to, now_ms=hours * HOUR_MS).end_offset
    assert any(
        not batch.header.records_count for batch in log.iterate_batches() if batch.header.is_transactional
    )
    # The checkpoint is lost: everything counts as dirty again.
    assert compact(log, 0, now_ms=51 * HOUR_MS).end_offset == log.segments[-1].base_offset


def test_nothing_past_the_beginning_of_an_open_transaction_is_judged() -> None:
    log = opened()
    put(log, "key", "old")
    transaction(log, 7, "other", "pending")
    fill(log, keys=1)
    put(log, "key", "new")
    fill(log, keys=1)
    before = values(log)
    assert compact(log).end_offset == 1
    assert {offset: kept for offset, kept in before.items() if offset >= 1}.items() <= values(log).items()
    end_transaction(log, 7, COMMIT)
    fill(log, keys=1)
    assert compact(log, 1).end_offset > 1
    assert committed(log)[b"other"] == b"pending"


def test_the_last_batch_of_a_known_producer_leaves_its_header() -> None:
    log = opened()
    for sequence in range(2):
        record = Record(-1, 1000, b"key", b"%d" % sequence)
        log.append(encode_batch([record], producer_id=9, producer_epoch=2, base_sequence=sequence))
    fill(log, 60, keys=1)
    put(log, "key", "newest")
    fill(log, 60, keys=1)
    compact(log, is_last_of_producer=lambda header: (header.producer_id, header.last_offset) == (9, 1))
    kept = [batch.header for batch in stored(log) if batch.header.producer_id == 9]
    assert [(header.base_offset, header.base_sequence, header.records_count) for header in kept] == [
        (1, 1, 0)
    ]


def test_a_pass_with_little_memory_cleans_a_part_and_the_next_ones_the_rest() -> None:
    log = opened()
    fill(log, 60, keys=12)
    before, target = committed(log), log.segments[-1].base_offset
    cleaned_to, passes = 0, 0
    while cleaned_to < target:
        done = compact(log, cleaned_to, max_keys=4)
        assert cleaned_to < done.end_offset <= target
        cleaned_to, passes = done.end_offset, passes + 1
        assert committed(log) == before
    assert passes > 3
    assert len([key for key, _ in values(log).values()]) <= 12 + (log.log_end_offset - target)


def test_young_records_wait_and_overdue_ones_do_not() -> None:
    log = opened(config=replace(CONFIG, min_compaction_lag_ms=HOUR_MS, max_compaction_lag_ms=5 * HOUR_MS))
    fill(log)
    log.sync()
    assert find_log_to_clean(log, 0, log.log_end_offset, 1000 + HOUR_MS - 1).dirty_bytes == 0
    todo = find_log_to_clean(log, 0, log.log_end_offset, 1000 + HOUR_MS)
    assert todo.end_offset == log.segments[-1].base_offset
    assert todo.is_due(0.5)
    assert not todo.is_due(1.0)
    assert find_log_to_clean(log, 0, log.log_end_offset, 1001 + 5 * HOUR_MS).is_due(1.0)


def test_what_is_not_durable_or_not_readable_waits() -> None:
    log = opened()
    fill(log)
    assert find_log_to_clean(log, 0, log.log_end_offset, 0).dirty_bytes == 0
    log.sync()
    second = log.segments[1].base_offset
    assert find_log_to_clean(log, 0, second, 0).end_offset == second


def test_the_log_lives_on_while_a_pass_is_under_way() -> None:
    log = opened(config=replace(CONFIG, cleanup_policy="compact,delete", retention_bytes=0))
    fill(log)
    log.sync()
    compaction = Compaction(log, find_log_to_clean(log, 0, log.log_end_offset, 0), terms())
    state = committed(log)
    for number, step in enumerate(compaction.iterate_steps()):
        if step is not None:
            step()
        key = f"new-{number}"
        put(log, key, "value")
        state[key.encode()] = b"value"
        assert committed(log) == state
        assert log.apply_retention(2**50) == 0
        assert log.read(0, 10, up_to=log.log_end_offset)
    assert compaction.result is not None
    assert committed(reopened(log)) == state
    assert log.apply_retention(2**50) > 0


def test_wherever_a_pass_is_broken_off_it_is_known_below_where_something_is_missing() -> None:
    log = opened(config=replace(CONFIG, segment_bytes=200))
    fill(log)
    log.sync()
    there = {record.offset for record in records(log)}
    missing: set[int] = set()
    for step in Compaction(log, find_log_to_clean(log, 0, log.log_end_offset, 0), terms()).iterate_steps():
        if step is not None:
            step()
        before, missing = missing, there - {record.offset for record in records(log)}
        assert max(missing, default=-1) < log.cleaned_offset
        if before and missing != before:
            return  # it was looked at in between
    raise AssertionError("all was put in place at once")


def terms() -> CompactionTerms:
    return CompactionTerms(0, HOUR_MS, lambda _: False)


@pytest.mark.parametrize("closes", [True, False])
def test_a_pass_ends_when_its_log_does(closes: bool) -> None:
    log = opened()
    fill(log)
    log.sync()
    state = committed(log)
    steps = Compaction(log, find_log_to_clean(log, 0, log.log_end_offset, 0), terms()).iterate_steps()
    for _ in range(12):
        step = next(steps)
        if step is not None:
            step()
    if closes:
        log.close()
    else:
        log.close_deleted()
        remove_directory(log.files, log.directory)
    with pytest.raises((LogClosed, LogPoisoned)):
        run(steps)
    if closes:
        assert committed(reopened(log)) == state
    else:
        assert not log.files.exists("/log-0")


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("several"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("transact"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 1), st.integers(0, 2)),
        st.tuples(st.just("compact"), st.integers(1, 12), st.integers(0, 90)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    min_size=20,
    max_size=60,
)
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


@given(OPERATIONS)
def test_no_compaction_changes_what_a_load_yields(operations: list[tuple[str, int, int]]) -> None:
    log = opened()
    cleaned_to = now_ms = 0
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    for number, (name, first, second) in enumerate(operations):
        if name == "put":
            put(log, f"key-{first}", f"value-{number}", CODECS[second])
        elif name == "remove":
            put(log, f"key-{first}", None, CODECS[second])
        elif name == "several":
            batch = [Record(-1, 1000, b"key-%d" % (first + i), b"%d" % number) for i in range(second + 1)]
            log.append(encode_batch(batch, codec=CODECS[second]))
        elif name == "transact":
            transaction(log, second, f"key-{first}", f"value-{number}")
        elif name == "end":
            end_transaction(log, second, first)
        elif name == "compact":
            now_ms += second * 60_000
            state = committed(log)
            cleaned_to = compact(log, cleaned_to, now_ms, max_keys=first).end_offset
            assert committed(log) == state
        else:
            state = committed(log)
            log.sync()
            log = reopened(log)
            assert committed(log) == state
        written |= {offset: kept for offset, kept in values(log).items() if offset not in written}
    present = values(log)
    assert present.items() <= written.items()
    for offset in Random(len(operations)).sample(
        range(log.log_end_offset + 1), min(5, log.log_end_offset + 1)
    ):
        assert read_from(log, offset) == [record for record in records(log) if record.offset >= offset]


def read_from(log: PartitionLog, offset: int) -> list[Record]:
    return [
        record
        for batch in log.iterate_batches(offset)
        if not batch.header.is_control
        for record in batch.records()
        if record.offset >= offset
    ]


def largest_step(log: PartitionLog) -> int:
    """The bytecodes of the largest step of a pass that the owner of the log takes itself."""
    compaction = Compaction(log, find_log_to_clean(log, 0, log.log_end_offset, 0), terms())
    steps, largest, step = compaction.iterate_steps(), 0, None
    while compaction.result is None:
        step, bytecodes = count_bytecodes(partial(next, steps, None))
        largest = max(largest, bytecodes)
        if step is not None:
            step()
    return largest


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("end", [None, COMMIT, ABORT])
def test_large_batches_are_compacted_in_another_thread(codec: int, end: int | None) -> None:
    """Compact with a transaction around the second batch that ends with `end`."""
    sizes = []
    for count in (300, 3_000):
        log = opened()
        large = [Record(-1, 1_000, f"key-{number}".encode(), b"value") for number in range(count)]
        log.append(encode_batch(large, codec=codec))
        if end is None:
            log.append(encode_batch(large, codec=codec))
        else:
            producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
            log.append(encode_batch(large, codec=codec, **producer))  # type: ignore[arg-type]
            log.append(encode_batch([marker(end)], is_control=True, **producer))  # type: ignore[arg-type]
        put(log, "fill", "x" * 400)
        put(log, "active", "")
        log.sync()
        state = committed(log)
        sizes.append(largest_step(log))
        assert committed(log) == state
        assert len(records(log)) < 2 * count
    assert max(sizes) < 1.2 * min(sizes)


def test_a_transaction_that_is_open_is_mapped_in_another_thread() -> None:
    sizes = []
    for count in (300, 3_000):
        log = opened()
        large = [Record(-1, 1_000, f"key-{number}".encode(), b"value") for number in range(count)]
        for _ in range(2):
            log.append(encode_batch(large))
        log.append(encode_batch(large, producer_id=7, producer_epoch=0, is_transactional=True))
        put(log, "fill", "x" * 400)
        put(log, "active", "")
        log.sync()
        sizes.append(largest_step(log))
    assert max(sizes) < 1.2 * min(sizes)
