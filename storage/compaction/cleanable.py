"""What compaction has to do in a log, and whether it is worth the trouble yet.

    log start ... first dirty offset ... end offset ... active segment
        clean            dirty            not yet

Compaction has met every record of the clean part. The dirty part ends where the active segment begins, or earlier:
at what is not durable or not readable yet, and at what is younger than `min.compaction.lag.ms`.

Source: Kafka's `LogCleanerManager.cleanableOffsets` and `LogToClean`.
"""

from typing import NamedTuple

from storage.errors import CorruptBatch, LogDamaged
from storage.log import PartitionLog
from storage.segment import Segment


class Cleanable(NamedTuple):
    """The dirty part of a log, and how many bytes it has beside the clean one."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record of the dirty part is older than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """The share of the dirty part; 0.0 where there is nothing at all."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Whether compaction should run now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.dirty_ratio > min_cleanable_dirty_ratio)


def cleanable(log: PartitionLog, cleaned_to: int, up_to: int, now_ms: int) -> Cleanable:
    """Looks at a log.

    In: the offset below which it is clean, as recorded; the offset that consumers can read up to; the wall clock.
    Raises LogDamaged, OSError.
    """
    sealed = log.segments[:-1]
    active_offset = log.segments[-1].base_offset
    first_dirty_offset = max(cleaned_to, log.log_start_offset)
    if first_dirty_offset > active_offset:
        # The log was cut, or its files were replaced, since that was written down.
        first_dirty_offset = log.log_start_offset
    limit = min(up_to, log.synced_offset)
    ends = [segment.base_offset for segment in log.segments[1:]]
    clean_bytes = dirty_bytes = 0
    end_offset = first_dirty_offset
    is_overdue = False
    for segment, segment_end in zip(sealed, ends, strict=True):
        if segment_end <= first_dirty_offset:
            clean_bytes += segment.size
            continue
        if segment_end > limit or _is_too_young(log, segment, now_ms):
            break
        dirty_bytes += segment.size
        end_offset = segment_end
        is_overdue = is_overdue or _is_overdue(log, segment, now_ms)
    return Cleanable(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)


def _is_too_young(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms <= 0:
        return False
    try:
        return segment.latest_ms(log.config.index_interval_bytes) > now_ms - lag_ms
    except CorruptBatch as error:
        raise LogDamaged(segment.path, error.reason, error.position) from error


def _is_overdue(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    if oldest_ms <= 0:
        return False
    try:
        for batch in segment.walk():
            return 0 <= batch.header.max_timestamp_ms < oldest_ms
    except CorruptBatch as error:
        raise LogDamaged(segment.path, error.reason, error.position) from error
    return False
