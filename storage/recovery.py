"""What a log finds on disk, and which of it is the log.

Two questions, answered in one pass. *Where does the log end?* At the end of the last whole, checksummed
batch. *May what follows be cut?* Only when it lies at or past the recovery point, the offset up to which
everything was once synced: there a torn write is what a crash leaves behind, and nobody was promised those
bytes. Before the recovery point the same finding is damage, and raises: cutting there would lose what was
acknowledged.

After a clean stop only the batches past the last index entry are read. After anything else, every segment
from the one that holds the recovery point is scanned with checksums and its indexes are built anew.

What is read may still be only in the page cache, and the log's next sync need not change that: after an fsync that
failed, perhaps in the process before, the page cache may call bytes clean that the disk never took. So what lies
past the recovery point is written once more, each byte over itself; only then does a sync say where it is.

A hole between two segments counts as the end of the log too, except where compaction makes holes.

Source: Kafka's `LogLoader` and `LogSegment.recover`.
"""

from typing import NamedTuple

from storage.errors import CorruptBatch, LogDamaged, UnsupportedMagic
from storage.files import Files
from storage.index import MAX_RELATIVE_OFFSET
from storage.log_config import LogConfig
from storage.segment import LOG_SUFFIX, Segment


class RecoveryReport(NamedTuple):
    """What opening a log came to. Its text is one line for the operator."""

    directory: str
    was_clean: bool
    recovery_point: int
    log_start_offset: int
    log_end_offset: int
    scanned_bytes: int
    cut_bytes: int = 0
    cut_path: str = ""
    cut_position: int = -1
    cut_reason: str = ""

    def __str__(self) -> str:
        end = f"{self.directory}: offsets {self.log_start_offset} to {self.log_end_offset}"
        how = "clean" if self.was_clean else f"recovered from offset {self.recovery_point}"
        checked = f"{end}, {how}, {self.scanned_bytes} bytes checked"
        if not self.cut_bytes:
            return checked
        cut = f"{self.cut_bytes} bytes cut at {self.cut_path}: byte {self.cut_position}: {self.cut_reason}"
        return f"{checked}, {cut}"


class Recovered(NamedTuple):
    """The segments of a log in order, the last of them ready for appending, and how they were found."""

    segments: list[Segment]
    report: RecoveryReport


def find_segments(files: Files, directory: str) -> list[Segment]:
    """The segments in a directory by base offset; whatever else lies there is not looked at."""
    segments = []
    for name in files.listdir(directory):
        stem, suffix = name[: -len(LOG_SUFFIX)], name[-len(LOG_SUFFIX) :]
        if suffix == LOG_SUFFIX and len(stem) == 20 and stem.isascii() and stem.isdigit():
            segments.append(Segment(files, directory, int(stem), files.size(f"{directory}/{name}")))
    return segments


def recover(
    files: Files,
    directory: str,
    config: LogConfig,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
) -> Recovered:
    """Opens what is in `directory`, cutting a torn tail; an empty directory gets its first segment.

    In: the offset before which everything was synced; the log start offset on record; whether the last stop
    was clean. Raises LogDamaged, OSError.
    """
    segments = find_segments(files, directory)
    if not segments:
        if recovery_point > log_start_offset:
            raise LogDamaged(directory, f"no segment is left of a log synced up to offset {recovery_point}")
        segments = [Segment.create(files, directory, log_start_offset)]
    try:
        scan = _Scan(files, directory, segments, config, recovery_point)
        return _recover(scan, log_start_offset, was_clean)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def _recover(scan: "_Scan", log_start_offset: int, was_clean: bool) -> Recovered:
    segments = scan.segments
    if not (was_clean and scan.resume_clean()):
        was_clean = False
        scan.run()
    log_end_offset = scan.log_end_offset
    if log_end_offset < log_start_offset:
        # Records were deleted up to an offset that the crash took back: nothing of the log is live.
        for segment in segments:
            segment.delete()
        segments[:] = [Segment.create(scan.files, scan.directory, log_start_offset)]
        log_end_offset = log_start_offset
    start = max(log_start_offset, segments[0].base_offset)
    report = RecoveryReport(
        scan.directory, was_clean, scan.recovery_point, start, log_end_offset, scan.scanned_bytes, *scan.cut
    )
    return Recovered(segments, report)


class _Scan:
    """One pass over the segments that may hold a torn tail."""

    def __init__(
        self, files: Files, directory: str, segments: list[Segment], config: LogConfig, recovery_point: int
    ) -> None:
        self.files = files
        self.directory = directory
        self.segments = segments
        self.config = config
        self.recovery_point = recovery_point
        self.log_end_offset = segments[-1].base_offset
        self.scanned_bytes = 0
        self._first = 0
        self.cut: tuple[int, str, int, str] = (0, "", -1, "")

    def resume_clean(self) -> bool:
        """Takes up the last segment from its index. False when anything is odd: then `run` looks closely."""
        active = self.segments[-1]
        try:
            active.load_indexes(self.config.index_interval_bytes)
            self._note_first_timestamp(active)
            self._scan_from(active, active.resume(), active.base_offset)
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
            expected_offset = max(self.log_end_offset, segment.base_offset)
            segment.start_indexes()
            try:
                self._scan_from(segment, 0, expected_offset)
            except UnsupportedMagic as error:
                # Whole and readable, only not here: whoever wrote it was promised that it stays.
                raise LogDamaged(segment.path, error.reason, error.position) from error
            except CorruptBatch as error:
                self._cut(number, error.position, error.reason)
                break
            if number < len(self.segments) - 1:
                segment.write_indexes()
        if self.log_end_offset < self.recovery_point:
            active = self.segments[-1]
            reason = f"ends at offset {self.log_end_offset}, but was synced up to {self.recovery_point}"
            raise LogDamaged(active.path, reason, active.size)
        position = self.segments[first].position_of(self.recovery_point, self.config.index_interval_bytes)
        for segment in self.segments[first:]:
            segment.write_anew(position)
            position = 0

    def _note_first_timestamp(self, segment: Segment) -> None:
        for batch in segment.walk():
            segment.first_timestamp_ms = batch.header.max_timestamp_ms
            return

    def _is_broken_before(self, segment: Segment) -> bool:
        if segment.base_offset < self.log_end_offset:
            return True
        return segment.base_offset > self.log_end_offset >= self.recovery_point and not self.config.compacts

    def _scan_from(self, segment: Segment, position: int, expected_offset: int) -> None:
        self.log_end_offset = expected_offset
        interval_bytes = self.config.index_interval_bytes
        for batch in segment.walk(position, check=True):
            header = batch.header
            if header.base_offset < self.log_end_offset:
                reason = f"batch at offset {header.base_offset} where {self.log_end_offset} or more is due"
                raise CorruptBatch(reason, batch.position)
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                reason = f"offset {header.last_offset} is more than a segment of {segment.base_offset} holds"
                raise CorruptBatch(reason, batch.position)
            segment.note(
                batch.position, len(batch.data), header.last_offset, header.max_timestamp_ms, interval_bytes
            )
            self.log_end_offset = header.next_offset
            self.scanned_bytes += len(batch.data)

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
