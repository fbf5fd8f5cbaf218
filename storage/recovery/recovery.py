"""Recovery of a log: finds its end on the disk, truncates a torn tail, and restores missing records from the
journal.

The log ends at the end of its last complete batch with a valid checksum. The bytes after it may be removed
only at or past the recovery point, the offset up to which all bytes were once synced. There a torn write is
the usual result of a crash, and no acknowledgement depends on those bytes. Before the recovery point the same
finding is damage and raises, because a cut would lose acknowledged records.

After a clean stop only the batches past the last index entry are read. Otherwise every segment from the one
with the recovery point on is scanned with checksums, and its indexes are rebuilt.

The bytes that are read may be in the page cache only, even after another sync: after a failed fsync, perhaps
of the previous process, the kernel may mark pages as clean that the disk never got. Therefore all bytes past
the recovery point are written again at the same place. Only then a sync proves that they are on the disk.

A gap between two segments counts as the end of the log too, except where compaction makes gaps. For a log in
the journal, compaction makes them only before the recovery point: after it a segment may be torn although the
next one is complete.

The journal counts from the end of the truncated log. Its entries below that are in the log or were compacted,
and are skipped. Those that begin there are appended byte for byte, at their promised offsets. A later entry is
an error: records before it were on the disk once, and are missing.

Source: Kafka's `LogLoader` and `LogSegment.recover`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from storage.batch import HEADER_BYTES, read_header
from storage.files import Files
from storage.journal.journal_frame import JournalEntry, split_batches
from storage.log_config import LogConfig
from storage.recovery.segment_swap import finish_swaps
from storage.segment import LOG_SUFFIX, LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged, UnsupportedMagic
from storage.stored_batch import StoredBatch


class RecoveryReport(NamedTuple):
    """The result of opening a log; its text is one line for the operator."""

    directory: str
    was_clean: bool
    recovery_point: int
    log_start_offset: int
    log_end_offset: int
    durable_offset: int
    """All bytes before it are on the disk. Later ones must be synced again."""
    scanned_bytes: int
    cut_bytes: int = 0
    cut_path: str = ""
    cut_position: int = -1
    cut_reason: str = ""
    postponed_errors: Sequence[OSError] = ()
    """Errors of writes that can wait: the files are rebuilt when they are needed, or at the next start."""
    replayed_bytes: int = 0
    """The size of the records that were missing in the segments and restored from the journal, in bytes."""

    def with_postponed(self, error: OSError) -> "RecoveryReport":
        """Return the report with one more failed write that can wait."""
        return self._replace(postponed_errors=[*self.postponed_errors, error])

    def __str__(self) -> str:
        end = f"{self.directory}: offsets {self.log_start_offset} to {self.log_end_offset}"
        how = "clean" if self.was_clean else f"recovered from offset {self.recovery_point}"
        checked = f"{end}, {how}, {self.scanned_bytes} bytes checked"
        if self.replayed_bytes:
            checked = f"{checked}, {self.replayed_bytes} bytes taken from the journal"
        if not self.cut_bytes:
            return checked
        cut = f"{self.cut_bytes} bytes cut at {self.cut_path}: byte {self.cut_position}: {self.cut_reason}"
        return f"{checked}, {cut}"


class RecoveredLog(NamedTuple):
    """The segments of a log in order, the last one ready for appends, and the report."""

    segments: list[LogSegment]
    report: RecoveryReport


def recover_log(
    files: Files,
    directory: str,
    config: LogConfig,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
    entries: Sequence[JournalEntry] = (),
) -> RecoveredLog:
    """Open the log in `directory`. Complete interrupted operations and cut a torn tail first.

    An empty directory gets its first segment.

    Args:
        files: The file system.
        directory: The directory of the partition.
        config: The configuration of the log.
        recovery_point: The offset before which all bytes were synced.
        log_start_offset: The log start offset of the checkpoint.
        was_clean: Whether the last stop was clean.
        entries: The entries of the journal for the log, by offset.

    Raises:
        LogDamaged, OSError
    """
    was_clean = not finish_swaps(files, directory) and was_clean
    segments = find_segments(files, directory)
    is_new = not segments
    if is_new:
        if recovery_point > log_start_offset:
            raise LogDamaged(directory, f"no segment is left of a log synced up to offset {recovery_point}")
        first = min([log_start_offset, *(entry.base_offset for entry in entries)])
        segments = [LogSegment.create(files, directory, first)]
    try:
        scan = TailScan(files, directory, segments, config, recovery_point, bool(entries))
        scan.is_new = is_new
        return _recover_segments(scan, log_start_offset, was_clean, entries)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def find_segments(files: Files, directory: str) -> list[LogSegment]:
    """Return the segments in a directory; other files are ignored."""
    segments = []
    for name in files.listdir(directory):
        stem, suffix = name[: -len(LOG_SUFFIX)], name[-len(LOG_SUFFIX) :]
        if suffix == LOG_SUFFIX and len(stem) == 20 and stem.isascii() and stem.isdigit():
            segments.append(LogSegment(files, directory, int(stem), files.size(f"{directory}/{name}")))
    return segments


class TailScan:
    """Finds the end of a log in its segments. Call `resume_clean`, and if it returns False, `scan_segments`.
    Then `log_end_offset` is set."""

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: list[LogSegment],
        config: LogConfig,
        recovery_point: int,
        has_journal: bool,
    ) -> None:
        """Create a recovery.

        `has_journal`: the journal has entries of the log. Then only compaction leaves gaps, and only before
        the recovery point.
        """
        self.files = files
        self.directory = directory
        self.segments = segments
        self.config = config
        self.recovery_point = recovery_point
        self.is_new = False
        """Whether the only segment was created just now."""
        self._may_have_holes = config.compacts and not has_journal
        self.log_end_offset = segments[-1].base_offset
        self.scanned_bytes = 0
        self._first_scanned = 0
        self.cut: tuple[int, str, int, str] = (0, "", -1, "")
        self.postponed_errors: list[OSError] = []
        """Errors of index writes. These indexes are rebuilt when they are needed."""

    def resume_clean(self) -> bool:
        """Resume the last segment from its indexes. Return False if anything is inconsistent; the caller then
        calls `scan_segments`."""
        active = self.segments[-1]
        try:
            active.load_indexes(self.config.index_interval_bytes)
            self._note_first_timestamp(active)
            tail = active.walk(active.resume(), check=True)
            self._index_batches(active, active.indexes.check_tail(tail))
        except CorruptBatch:
            return False
        return self.log_end_offset >= self.recovery_point

    def scan_segments(self) -> None:
        """Scan from the segment with the recovery point on. Truncate the log at the first bad batch, or raise
        LogDamaged."""
        for number, segment in enumerate(self.segments):
            if segment.base_offset <= self.recovery_point:
                self._first_scanned = number
        first = self._first_scanned
        self.log_end_offset = self.segments[first].base_offset
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if number > first and self._is_broken_before(segment):
                self._cut_log(number, 0, f"the segment before it ends at offset {self.log_end_offset}")
                break
            segment.start_indexes()
            try:
                self._index_batches(segment, segment.walk(check=True))
            except UnsupportedMagic as error:
                # The records are complete and readable, and were acknowledged. groupd only does not support
                # their format.
                raise LogDamaged(segment.path, error.reason, error.position) from error
            except CorruptBatch as error:
                self._cut_log(number, error.position, error.reason)
                break
            if number < len(self.segments) - 1:
                try:
                    segment.write_indexes()
                except OSError as error:
                    self.postponed_errors.append(error)
        if self.log_end_offset < self.recovery_point:
            active = self.segments[-1]
            reason = f"ends at offset {self.log_end_offset}, but was synced up to {self.recovery_point}"
            raise LogDamaged(active.path, reason, active.size)
        position = self.segments[first].find_position(self.recovery_point, self.config.index_interval_bytes)
        if position == self.segments[first].size and not self.is_new:
            # Bytes that were truncated here, possibly by a former process, must not reappear after a crash if
            # a next segment exists by then.
            self.segments[first].file.fdatasync()
        for segment in self.segments[first:]:
            segment.rewrite_from(position)
            position = 0

    def _note_first_timestamp(self, segment: LogSegment) -> None:
        if segment.size:
            header = read_header(segment.file.pread(HEADER_BYTES, 0))
            segment.indexes.first_timestamp_ms = header.max_timestamp_ms

    def _is_broken_before(self, segment: LogSegment) -> bool:
        if segment.base_offset < self.log_end_offset:
            return True
        return segment.base_offset > self.log_end_offset >= self.recovery_point and not self._may_have_holes

    def _index_batches(self, segment: LogSegment, batches: Iterator[StoredBatch]) -> None:
        """Add the batches of a segment to its indexes. Raises CorruptBatch, at the end of the log."""
        self.log_end_offset = segment.base_offset
        interval_bytes = self.config.index_interval_bytes
        for _, position, header, data in batches:
            segment.check_offsets(header, position)
            size = len(data)
            segment.index_batch(position, size, header.last_offset, header.max_timestamp_ms, interval_bytes)
            self.log_end_offset = segment.next_offset
            self.scanned_bytes += size

    def _cut_log(self, number: int, position: int, reason: str) -> None:
        """Make `position` of a segment the end of the log. An empty segment is removed, unless the scan began
        with it."""
        segment = self.segments[number]
        if self.log_end_offset < self.recovery_point:
            raise LogDamaged(segment.path, reason, position)
        cut_bytes = segment.size - position + sum(later.size for later in self.segments[number + 1 :])
        self.cut = (cut_bytes, segment.path, position, reason)
        for later in reversed(self.segments[number + 1 :]):
            later.delete()
        if self.segments[number + 1 :]:
            # Removed segments must not reappear after the log has grown to their base offset.
            self.files.fsync_directory(self.directory)
        del self.segments[number + 1 :]
        if position == 0 and number > self._first_scanned:
            segment.delete()
            del self.segments[number]
        else:
            segment.truncate(position)


def _recover_segments(
    scan: TailScan, log_start_offset: int, was_clean: bool, entries: Sequence[JournalEntry]
) -> RecoveredLog:
    segments = scan.segments
    if not (was_clean and scan.resume_clean()):
        was_clean = False
        scan.scan_segments()
    replayed_bytes = replay_entries(scan.files, scan.directory, segments, entries, scan.config)
    was_clean = was_clean and not replayed_bytes
    log_end_offset = segments[-1].next_offset if replayed_bytes else scan.log_end_offset
    if log_end_offset < log_start_offset:
        # The log start offset is past the end that the crash has left: all remaining records were deleted.
        for segment in segments:
            segment.delete()
        segments[:] = [LogSegment.create(scan.files, scan.directory, log_start_offset)]
        log_end_offset = log_start_offset
    start = max(log_start_offset, segments[0].base_offset)
    durable_offset = log_end_offset if was_clean else min(max(scan.recovery_point, start), log_end_offset)
    assert scan.recovery_point <= durable_offset <= log_end_offset, (scan.directory, log_end_offset)
    report = RecoveryReport(
        scan.directory,
        was_clean,
        scan.recovery_point,
        start,
        log_end_offset,
        durable_offset,
        scan.scanned_bytes,
        *scan.cut,
        scan.postponed_errors,
        replayed_bytes,
    )
    return RecoveredLog(segments, report)


def replay_entries(
    files: Files,
    directory: str,
    segments: list[LogSegment],
    entries: Iterable[JournalEntry],
    config: LogConfig,
) -> int:
    """Append missing records of the journal, with new segments if they are due. Return their size in bytes.

    `segments` has all segments of the log, the last one with its indexes. `entries` are ordered by offset. Raises
    LogDamaged, OSError.
    """
    missing_bytes = 0
    for entry in entries:
        if entry.end_offset <= segments[-1].next_offset:
            continue
        try:
            for base_offset, next_offset, data in split_batches(entry):
                active, end_offset = segments[-1], segments[-1].next_offset
                if next_offset <= end_offset:
                    continue
                if base_offset != end_offset:
                    reason = f"ends at offset {end_offset}, and the journal goes on at {base_offset}"
                    raise LogDamaged(active.path, reason, active.size)
                latest_ms = read_header(data).max_timestamp_ms
                if active.is_full(len(data), next_offset - 1, latest_ms, config):
                    active.write_indexes()
                    active = LogSegment.create(files, directory, end_offset)
                    segments.append(active)
                active.append(data, base_offset, next_offset - 1, latest_ms, config.index_interval_bytes)
                missing_bytes += len(data)
        except CorruptBatch as error:
            reason = f"journal entry at offset {entry.base_offset}: {error.reason}"
            raise LogDamaged(directory, reason, error.position) from error
    return missing_bytes
