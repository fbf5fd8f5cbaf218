"""Retention by time, size and log start, each against Kafka's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.numbered_log import contents

DIRECTORY = "/data/orders-0"


def in_segments(times: list[list[int]], config: LogConfig) -> tuple[FaultyFiles, PartitionLog]:
    """A log with one segment for each list of timestamps."""
    files = FaultyFiles()
    log = PartitionLog.open(files, DIRECTORY, LogConfig(segment_bytes=10**6))
    for segment_times in times:
        if log.log_end_offset:
            log.config = LogConfig(segment_bytes=1)
        for timestamp_ms in segment_times:
            log.append_records([record(log.log_end_offset, timestamp_ms)])
            log.config = LogConfig(segment_bytes=10**6)
    log.config = config
    assert len(log.segments) == len(times)
    return files, log


def test_segments_go_when_their_latest_record_is_too_old() -> None:
    config = LogConfig(retention_ms=100)
    _, log = in_segments([[10, 50], [60, 20], [90]], config)
    assert log.apply_retention(150) == 0
    gone = log.segments[0].size
    assert log.apply_retention(151) == gone
    assert (log.log_start_offset, len(log.segments)) == (2, 2)
    assert log.apply_retention(161) > 0
    assert log.log_start_offset == 4


def test_an_old_segment_behind_a_young_one_stays() -> None:
    _, log = in_segments([[500], [10], [600]], LogConfig(retention_ms=100))
    assert log.apply_retention(590) == 0


def test_the_active_segment_goes_too_once_everything_is_too_old() -> None:
    files, log = in_segments([[10], [20, 30]], LogConfig(retention_ms=100))
    assert log.apply_retention(131) > 0
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.apply_retention(10**9) == 0
    assert log.append_records([record(3)]).base_offset == 3
    log.sync()
    again = PartitionLog.open(files.crash(), DIRECTORY, LogConfig(), recovery_point=4)
    assert [item.offset for item in contents(again)] == [3]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 3000))
def test_size_keeps_the_fewest_segments_that_hold_the_bytes(counts: list[int], limit: int) -> None:
    _, log = in_segments([[1] * count for count in counts], LogConfig(retention_bytes=limit, retention_ms=-1))
    sizes = [segment.size for segment in log.segments]
    log.apply_retention(10**12)
    kept = [segment.size for segment in log.segments]
    assert sum(kept) >= min(limit, sum(sizes))
    assert sum(kept[1:]) < limit or not kept[0]


@pytest.mark.parametrize("config", [LogConfig(retention_ms=0), LogConfig(retention_bytes=0, retention_ms=-1)])
def test_nothing_goes_that_consumers_cannot_read_yet(config: LogConfig) -> None:
    _, log = in_segments([[1], [1, 1], [1]], config)
    assert log.apply_retention(1000, up_to=2) > 0
    assert log.log_start_offset == 1
    log.apply_retention(1000, up_to=3)
    assert log.log_start_offset == 3
    log.apply_retention(1000)
    assert log.log_start_offset == 4


def test_without_limits_nothing_goes() -> None:
    _, log = in_segments([[1], [1]], LogConfig(retention_ms=-1, retention_bytes=-1))
    assert log.apply_retention(10**15) == 0


@pytest.mark.parametrize(("policy", "start"), [("compact", 1), ("compact,delete", 3), ("delete", 3)])
def test_a_compacted_log_loses_only_what_was_deleted(policy: str, start: int) -> None:
    _, log = in_segments([[1], [1], [1]], LogConfig(retention_ms=0, cleanup_policy=policy))
    log.log_start_offset = 1
    log.apply_retention(1000)
    assert log.log_start_offset == start


def test_records_without_a_time_age_with_their_file() -> None:
    files, log = in_segments([[5], [-1], [-1]], LogConfig(retention_ms=100))
    files.now_ms = 1000
    log.append_records([record(3, -1)])
    assert log.apply_retention(1050) > 0
    assert len(log.segments) == 1
    assert log.apply_retention(1100) == 0
    assert log.apply_retention(1101) > 0


def test_a_segment_found_on_disk_ages_by_its_records() -> None:
    files, log = in_segments([[10], [20], [30]], LogConfig(retention_ms=100))
    log.close()
    again = PartitionLog.open(files, DIRECTORY, log.config, recovery_point=3, was_clean=True)
    again.apply_retention(121)
    assert again.log_start_offset == 2
