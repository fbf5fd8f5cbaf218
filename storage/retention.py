"""Select the oldest segments of a log that retention deletes. Source: Kafka's `UnifiedLog.deleteOldSegments`.

Retention deletes whole segments, oldest first, and only below `up_to`, the offset that consumers can already read.
It may delete the last segment too if all of its records are too old; the log then begins a new one at its end.
"""

from collections.abc import Sequence

from storage.log_config import LogConfig
from storage.segment import LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged


def count_deletable(
    segments: Sequence[LogSegment],
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
    log_end_offset: int,
    up_to: int,
) -> int:
    """Return the number of segments, from the first, that are below the log start offset, too large, or too old.

    `segments` are in order; `now_ms` is the wall clock. Indexes of sealed segments are loaded to compare
    ages. Raises LogDamaged if an index must be rebuilt from damaged bytes.
    """
    first = count_below(segments, log_start_offset)
    if not config.deletes:
        return first
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    readable = 0
    while readable < len(segments) and ends[readable] <= up_to and segments[readable].size > 0:
        readable += 1
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[first:]) - config.retention_bytes
        while first < readable and excess >= segments[first].size:
            excess -= segments[first].size
            first += 1
    if config.retention_ms >= 0:
        while first < readable and now_ms - _find_latest_ms(segments[first], config) > config.retention_ms:
            first += 1
    return first


def count_below(segments: Sequence[LogSegment], log_start_offset: int) -> int:
    """Return the number of segments, from the first, without records at or after an offset; never the last."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _find_latest_ms(segment: LogSegment, config: LogConfig) -> int:
    try:
        return segment.find_latest_ms(config.index_interval_bytes)
    except CorruptBatch as error:
        raise LogDamaged(segment.path, error.reason, error.position) from error
