from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.compression import NONE, ZSTD
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.storage_errors import LogClosed
from storage.timestamp_lookup import TimestampOffset
from tests.executed_code import count_bytecodes
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.lookups import run_lookup

TIMES = st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=4), max_size=20)


def log_of(
    times: list[list[int]], codec: int, interval_bytes: int, *, segment_bytes: int = 600
) -> PartitionLog:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval_bytes)
    log = PartitionLog.open(FaultyFiles(), "/data/orders-0", config)
    for batch_times in times:
        log.append(encode_batch([record(7, timestamp_ms) for timestamp_ms in batch_times], codec=codec))
    return log


@given(TIMES, st.sampled_from([NONE, ZSTD]), st.sampled_from([0, 150, 4096]), st.booleans(), st.data())
def test_lookups_agree_with_reading_everything(
    times: list[list[int]], codec: int, interval_bytes: int, is_reopened: bool, data: st.DataObject
) -> None:
    log = log_of(times, codec, interval_bytes)
    if is_reopened:
        log.close()
        end = log.log_end_offset
        log = PartitionLog.open(
            log.files, log.directory, log.config, recovery_point=end, was_clean=data.draw(st.booleans())
        )
    start = log.delete_records_before(data.draw(st.integers(0, log.log_end_offset)))
    flat = list(enumerate(timestamp_ms for batch_times in times for timestamp_ms in batch_times))[start:]
    for target in range(-1, 62):
        first = next(((time, offset) for offset, time in flat if time >= target), None)
        assert run_lookup(log.find_offset_for_timestamp(target)) == first
    latest = max((time for _, time in flat), default=-1)
    if latest >= 0:
        assert find_max(log) == next((time, offset) for offset, time in flat if time == latest)
    else:
        assert find_max(log) is None


@given(TIMES, st.integers(-1, 60), st.booleans(), st.data())
def test_a_log_that_changes_between_two_steps(
    times: list[list[int]], target: int, wants_greatest: bool, data: st.DataObject
) -> None:
    log = log_of(times, NONE, 150)
    flat = list(enumerate(time for batch_times in times for time in batch_times))
    steps = log.find_max_timestamp() if wants_greatest else log.find_offset_for_timestamp(target)
    found, result = None, None
    try:
        while True:
            step = steps.send(result)
            log.append(encode_batch([record(7, 61)]))
            log.delete_records_before(data.draw(st.integers(0, log.log_end_offset)))
            result = step()
    except StopIteration as end:
        found = end.value
    live = [(time, offset) for offset, time in flat if offset >= log.log_start_offset]
    if found is not None and found.offset < len(flat):
        assert flat[found.offset] == (found.offset, found.timestamp_ms)
    if wants_greatest:
        latest = max((time for time, _ in live), default=-1)
        assert latest < 0 or (found is not None and found.timestamp_ms >= latest)
    else:
        first = next((offset for time, offset in live if time >= target), None)
        assert first is None or (found is not None and found.offset <= first)


def find_max(log: PartitionLog) -> TimestampOffset | None:
    return run_lookup(log.find_max_timestamp())


def test_a_step_reads_its_segment_even_when_the_log_is_closed_meanwhile() -> None:
    log = log_of([[10], [20], [30]], NONE, 0)
    step = next(log.find_offset_for_timestamp(25))
    log.close()
    assert step() == (30, 2)


def test_a_search_ends_with_the_log() -> None:
    log = log_of([[60, 0], *[[1]] * 50], NONE, 0)
    log.delete_records_before(1)
    steps = log.find_offset_for_timestamp(50)
    step = next(steps)  # the index of the first segment has the time of the deleted record
    assert step() is None
    log.close()
    with pytest.raises(LogClosed):
        steps.send(None)


def test_of_the_records_that_are_left_few_are_read_for_the_greatest_time() -> None:
    costs = []
    for size in (1, 50):
        log = log_of(
            [[60], *[[number % 50] * size for number in range(100)]], NONE, 4096, segment_bytes=10**6
        )
        log.delete_records_before(1)
        found, cost = count_bytecodes(partial(find_max, log))
        assert found == (49, 1 + 49 * size)
        costs.append(cost)
    assert costs[1] < 2 * costs[0]


def test_append_time_is_the_time_of_the_whole_batch() -> None:
    log = log_of([[10, 20]], NONE, 4096)
    log.append(encode_batch([record(1, 1), record(2, 99)]), log_append_time_ms=50)
    assert run_lookup(log.find_offset_for_timestamp(50)) == (50, 2)
    assert run_lookup(log.find_offset_for_timestamp(51)) is None
    assert find_max(log) == (50, 2)
