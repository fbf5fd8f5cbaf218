from hypothesis import given
from hypothesis import strategies as st

from storage.batch import encode_batch
from storage.compression import NONE, ZSTD
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

TIMES = st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=4), max_size=20)


def log_of(times: list[list[int]], codec: int, interval_bytes: int) -> PartitionLog:
    config = LogConfig(segment_bytes=600, index_interval_bytes=interval_bytes)
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
        assert log.offset_for_timestamp(target) == first
    latest = max((time for _, time in flat), default=-1)
    if latest >= 0:
        assert log.max_timestamp() == next((time, offset) for offset, time in flat if time == latest)
    else:
        assert log.max_timestamp() is None


def test_append_time_is_the_time_of_the_whole_batch() -> None:
    log = log_of([[10, 20]], NONE, 4096)
    log.append(encode_batch([record(1, 1), record(2, 99)]), log_append_time_ms=50)
    assert log.offset_for_timestamp(50) == (50, 2)
    assert log.offset_for_timestamp(51) is None
    assert log.max_timestamp() == (50, 2)
