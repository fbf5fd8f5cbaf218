"""One pass over the segments that may hold a torn tail. See `recovery.py` for what may be cut, and why."""

from collections.abc import Iterator

from storage.batch import HEADER_BYTES, read_header
from storage.errors import CorruptBatch, LogDamaged, UnsupportedMagic
from storage.files import Files
from storage.log_config import LogConfig
from storage.segment import Segment
from storage.stored_batch import StoredBatch


class TailScan:
    """The segments of one log. `resume_clean`, or `run` where that is False; then `log_end_offset` is there."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: list[Segment],
        config: LogConfig,
        recovery_point: int,
        has_journal: bool,
    ) -> None:
        """In: whether the journal has anything of the log; then compaction has left holes before the recovery point
        only."""
        self.files = files
        self.directory = directory
        self.segments = segments
        self.config = config
        self.recovery_point = recovery_point
        self.is_new = False
        """Whether the only segment was made just now."""
        self._may_have_holes = config.compacts and not has_journal
        self.log_end_offset = segments[-1].base_offset
        self.scanned_bytes = 0
        self._first = 0
        self.cut: tuple[int, str, int, str] = (0, "", -1, "")
        self.put_off: list[OSError] = []
        """Why indexes were not written, which will be made anew when they are wanted."""

    def resume_clean(self) -> bool:
        """Takes up the last segment from its index. False when anything is odd: then `run` looks closely."""
        active = self.segments[-1]
        try:
            active.load_indexes(self.config.index_interval_bytes)
            self._note_first_timestamp(active)
            tail = active.walk(active.resume(), check=True)
            self._take(active, active.indexes.fitting(tail))
        except CorruptBatch:
            return False
        return self.log_end_offset >= self.recovery_point

    def run(self) -> None:
        """Scans from the segment that holds the recovery point, and cuts or raises at the first bad batch."""
        for number, segment in enumerate(self.segments):
            if segment.base_offset <= self.recovery_point:
                self._first = number
        first = self._first
        self.log_end_offset = self.segments[first].base_offset
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if number > first and self._is_broken_before(segment):
                self._cut(number, 0, f"the segment before it ends at offset {self.log_end_offset}")
                break
            segment.start_indexes()
            try:
                self._take(segment, segment.walk(check=True))
            except UnsupportedMagic as error:
                # Whole and readable, only not here: whoever wrote it was promised that it stays.
                raise LogDamaged(segment.path, error.reason, error.position) from error
            except CorruptBatch as error:
                self._cut(number, error.position, error.reason)
                break
            if number < len(self.segments) - 1:
                try:
                    segment.write_indexes()
                except OSError as error:
                    self.put_off.append(error)
        if self.log_end_offset < self.recovery_point:
            active = self.segments[-1]
            reason = f"ends at offset {self.log_end_offset}, but was synced up to {self.recovery_point}"
            raise LogDamaged(active.path, reason, active.size)
        position = self.segments[first].position_of(self.recovery_point, self.config.index_interval_bytes)
        if position == self.segments[first].size and not self.is_new:
            # What was cut here, by a process before this one perhaps, must not come back behind the next segment.
            self.segments[first].file.fdatasync()
        for segment in self.segments[first:]:
            segment.write_anew(position)
            position = 0

    def _note_first_timestamp(self, segment: Segment) -> None:
        if segment.size:
            header = read_header(segment.file.pread(HEADER_BYTES, 0))
            segment.indexes.first_timestamp_ms = header.max_timestamp_ms

    def _is_broken_before(self, segment: Segment) -> bool:
        if segment.base_offset < self.log_end_offset:
            return True
        return segment.base_offset > self.log_end_offset >= self.recovery_point and not self._may_have_holes

    def _take(self, segment: Segment, batches: Iterator[StoredBatch]) -> None:
        """Takes the batches of a segment into its indexes. Raises CorruptBatch, at the end of the log."""
        self.log_end_offset = segment.base_offset
        interval_bytes = self.config.index_interval_bytes
        for _, position, header, data in batches:
            segment.check_offsets(header, position)
            size = len(data)
            segment.note(position, size, header.last_offset, header.max_timestamp_ms, interval_bytes)
            self.log_end_offset = segment.next_offset
            self.scanned_bytes += size

    def _cut(self, number: int, position: int, reason: str) -> None:
        """Makes `position` of a segment the end of the log; one cut to nothing goes, unless the scan began
        with it.
        """
        segment = self.segments[number]
        if self.log_end_offset < self.recovery_point:
            raise LogDamaged(segment.path, reason, position)
        cut_bytes = segment.size - position + sum(later.size for later in self.segments[number + 1 :])
        self.cut = (cut_bytes, segment.path, position, reason)
        for later in reversed(self.segments[number + 1 :]):
            later.delete()
        if self.segments[number + 1 :]:
            # A log that has grown to where one of them began must not find it there again.
            self.files.fsync_directory(self.directory)
        del self.segments[number + 1 :]
        if position == 0 and number > self._first:
            segment.delete()
            del self.segments[number]
        else:
            segment.truncate(position)
