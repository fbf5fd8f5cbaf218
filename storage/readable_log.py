"""Reading of a partition's log: nothing here changes it."""

from collections.abc import Iterator

from storage.errors import OffsetOutOfRange
from storage.files import Files
from storage.log_config import LogConfig
from storage.log_follower import LogFollower
from storage.log_segments import LogSegments
from storage.lookup import TimestampOffset, first_at_or_after, latest
from storage.read_limits import ReadLimits
from storage.segment import Segment
from storage.stored_batch import StoredBatch


class ReadableLog:
    """The segments of a log, and where it begins and ends. All methods belong to the owner's thread."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        """May be replaced at any time; the next append, read or retention obeys it."""
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.follower: LogFollower | None = None
        self._segments = segments
        assert segments.all[0].base_offset <= log_start_offset <= log_end_offset, directory
        assert log_end_offset == segments.active.next_offset, directory

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return self._segments.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """From oldest to active, for reading only."""
        return self._segments.all

    def _tell_follower(self) -> None:
        """The active segment is complete as it is now. Raises OSError."""
        if self.follower is not None:
            self.follower.seal(self._segments.active, self.log_end_offset)

    def _require_within(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool = True, is_cut: bool = False
    ) -> bytes:
        """Batches of one segment, from the one that holds `offset`, within what `ReadLimits` says.

        Out: b"" if there is nothing below `up_to`. Raises OffsetOutOfRange, LogDamaged."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to or offset == self.log_end_offset:
            return b""
        limits = ReadLimits(max_bytes, up_to, min_one_batch, is_cut)
        return self._segments.read(offset, limits, self.config.index_interval_bytes)

    def bound_of_read(self, offset: int, size_bytes: int) -> int:
        """An offset behind all that a read of `size_bytes` from `offset` has returned, as the index knows one: the
        end of the next indexed batch, of the segment, or of the log. Raises LogDamaged.

        Source: Kafka's `LogSegment.fetchUpperBoundOffset`.
        """
        self._require_within(offset)
        return self._segments.bound_of_read(
            offset, size_bytes, self.log_end_offset, self.config.index_interval_bytes
        )

    def size_from(self, offset: int) -> int:
        """How many bytes the batches have that end at or after an offset. Raises OffsetOutOfRange, LogDamaged."""
        self._require_within(offset)
        return self._segments.size_from(offset, self.config.index_interval_bytes)

    def batches(self, from_offset: int | None = None) -> Iterator[StoredBatch]:
        """Every batch that ends at or after `from_offset` (default: the log start offset), checksums verified.

        Gaps and empty batches that compaction left are normal. Ends where the log ended when the walk began.
        Raises OffsetOutOfRange, LogDamaged with file and position.
        """
        if from_offset is None:
            from_offset = self.log_start_offset
        self._require_within(from_offset)
        return self._segments.batches(from_offset, self.log_end_offset, self.config.index_interval_bytes)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose time is `timestamp_ms` or later, if there is one. Raises LogDamaged."""
        segments, interval_bytes = self._segments.all, self.config.index_interval_bytes
        return first_at_or_after(segments, timestamp_ms, self.log_start_offset, interval_bytes)

    def max_timestamp(self) -> TimestampOffset | None:
        """The greatest time of all records and the first offset that has it. Raises LogDamaged."""
        return latest(self._segments.all, self.log_start_offset, self.config.index_interval_bytes)
