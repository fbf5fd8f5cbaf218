"""Finds the logs at a path (a segment, a partition's directory, a data directory) and reads all batches of a
log, beside a process that writes it.

Reading takes no lock and changes nothing: a listed file may be gone when it is opened. Directories are those
of this engine or of a Kafka broker. Other files of a broker (indexes, snapshots, files about to be deleted)
are recognised by name and skipped.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple

from storage.batch import HEADER_BYTES, read_header
from storage.files import File, Files
from storage.inspection.segment_scan import BadBytes, Piece, SegmentScan
from storage.offset_checkpoint import RECOVERY_POINTS
from storage.recovery.segment_swap import CLEANED_SUFFIX
from storage.segment import LOG_SUFFIX
from storage.segment_index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.storage_errors import CorruptBatch, FileError
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition

_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
_DELETED_PARTITION: Final = re.compile(r"(.+)\.[0-9a-f]{32}-(?:delete|future|stray)")
_SEGMENT: Final = re.compile(r"([0-9]{20})\.log(?:\..+)?", re.DOTALL)
_LIVE_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_SWAP: Final = re.compile(r"[0-9]{20}\.log\.swap")
_DATA_DIRECTORY_FILES: Final = ("meta.properties", ".lock", RECOVERY_POINTS)
_OTHER_FILES: Final = {
    INDEX_SUFFIX: "an offset index",
    TIME_INDEX_SUFFIX: "a time index",
    ".txnindex": "an index of aborted transactions",
    ".snapshot": "a snapshot of producers",
}


class NotALog(FileError):
    """A path is not a log, or does not exist."""


class SegmentFile(NamedTuple):
    """A segment's `.log` file."""

    path: str
    base_offset: int


class LogListing(NamedTuple):
    """The log of one partition, or the requested segment of it."""

    directory: str
    name: TopicPartition | None
    """The partition, or None if the directory does not have the name of a partition."""
    segments: tuple[SegmentFile, ...]
    """The segments by base offset."""
    is_whole: bool
    """Whether these are all segments of the directory, not a single one that was named."""

    def find_end_offset(self, number: int) -> int | None:
        """Return the start of the segment after the one of this number, None for the last."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else None


def find_logs(files: Files, path: str) -> list[LogListing]:
    """Return the logs at a path, by topic and partition.

    The absolute path is that of a segment, a partition directory or a data directory. Raises NotALog, OSError.
    """
    if not files.exists(path):
        raise NotALog(path, "does not exist")
    if not files.is_directory(path):
        return [_list_segment(files, path)]
    names = files.listdir(path)
    if any(_LIVE_SEGMENT.fullmatch(name) or _SWAP.fullmatch(name) for name in names):
        return [_list_log(files, path, names)]
    logs = [
        _list_log(files, directory, list_names(files, directory))
        for directory in _find_partitions(files, path, names)
    ]
    # A name that ends in a number does not make a directory a partition, because many names do.
    if any(log.segments for log in logs) or (logs and _is_data_directory(files, path)):
        return sorted(logs, key=_get_partition)
    if not names:
        raise NotALog(path, "is an empty directory")
    raise NotALog(path, "has neither segments of a log nor partitions")


def relist_log(files: Files, log: LogListing) -> LogListing:
    """Return the log with its current segments, or the same listing for a single named segment. Raises
    OSError."""
    return _list_log(files, log.directory, list_names(files, log.directory)) if log.is_whole else log


def parse_base_offset(log: LogListing, path: str) -> int:
    """Return the base offset in the name of a segment, also of one that is newer than the list of the log."""
    match = _SEGMENT.fullmatch(os.path.basename(path))
    return log.segments[0].base_offset if match is None else int(match[1])


def find_data_directory(files: Files, log: LogListing) -> str | None:
    """Return the data directory of a log as far as known, or None for a separate log."""
    if log.name is None or os.path.basename(log.directory) != str(log.name):
        return None
    parent = os.path.dirname(log.directory)
    return parent if _is_data_directory(files, parent) else None


def _is_data_directory(files: Files, path: str) -> bool:
    return any(files.exists(f"{path}/{name}") for name in _DATA_DIRECTORY_FILES)


def _get_partition(log: LogListing) -> TopicPartition:
    assert log.name is not None
    return log.name


def _find_partitions(files: Files, path: str, names: list[str]) -> Iterator[str]:
    for name in names:
        directory = os.path.join(path, name)
        if _PARTITION.fullmatch(name) and files.is_directory(directory):
            yield directory


def list_names(files: Files, directory: str) -> list[str]:
    """Return the names in a partition's directory; none if it cannot be listed, which `find_unusable_files`
    reports."""
    try:
        return files.listdir(directory)
    except OSError:
        return []


def _list_log(files: Files, directory: str, names: list[str]) -> LogListing:
    segments = [
        SegmentFile(os.path.join(directory, name), int(name[: -len(LOG_SUFFIX)]))
        for name in names
        if _LIVE_SEGMENT.fullmatch(name)
    ]
    for swap, end_offset in _find_swaps(files, directory, names):
        segments = [
            segment for segment in segments if not swap.base_offset <= segment.base_offset < end_offset
        ]
        segments.append(swap)
    return LogListing(
        directory, parse_partition(directory), tuple(sorted(segments, key=_get_base_offset)), True
    )


def _find_swaps(files: Files, directory: str, names: list[str]) -> Iterator[tuple[SegmentFile, int]]:
    """Yield compacted segments that are not yet renamed into place but already count, each with its end
    offset.

    The rules are those of `recovery/segment_swap.py`, except that a damaged segment counts up to its last
    readable batch.
    """
    unwritten = min((name for name in names if name.endswith(CLEANED_SUFFIX)), default="~")
    for name in names:
        if not _SWAP.fullmatch(name) or name >= unwritten:
            continue
        swap = SegmentFile(os.path.join(directory, name), int(name[:20]))
        try:
            file = files.open_read(swap.path)
        except OSError:
            continue  # renamed into place meanwhile, or reported by `find_unusable_files`
        try:
            scan = SegmentScan(file, swap.base_offset)
            for _ in scan.scan_pieces():
                pass
            yield swap, max(scan.next_offset, swap.base_offset + 1)
        finally:
            file.close()


def _get_base_offset(segment: SegmentFile) -> int:
    return segment.base_offset


def parse_partition(directory: str) -> TopicPartition | None:
    """Return the partition of a directory by its name, also during a deletion or a move."""
    name = os.path.basename(directory)
    leaving = _DELETED_PARTITION.fullmatch(name)
    match = _PARTITION.fullmatch(name if leaving is None else leaving[1])
    return None if match is None else TopicPartition(match[1], int(match[2]))


def _list_segment(files: Files, path: str) -> LogListing:
    directory, name = os.path.split(path)
    match = _SEGMENT.fullmatch(name)
    if match is not None:
        base_offset = int(match[1])
    else:
        what = _OTHER_FILES.get(os.path.splitext(name)[1])
        if what is not None:
            raise NotALog(path, f"is {what}, not the log itself")
        base_offset = _read_first_offset(files, path)
    return LogListing(directory, parse_partition(directory), (SegmentFile(path, base_offset),), False)


def _read_first_offset(files: Files, path: str) -> int:
    """Return the first offset of a segment without an offset in its name. Raises NotALog without a batch at
    its start."""
    file = files.open_read(path)
    try:
        base_offset = read_header(file.pread(HEADER_BYTES, 0)).base_offset
        if any(
            isinstance(piece, StoredBatch)
            for piece in islice(SegmentScan(file, base_offset).scan_pieces(), 1)
        ):
            return base_offset
    except CorruptBatch as error:
        raise NotALog(path, f"not a segment of a log: {error.reason}") from error
    finally:
        file.close()
    raise NotALog(path, "not a segment of a log")


_MAX_READS: Final = 10
"""The number of times that the end of a log is read again before it counts as torn."""


class LogReader:
    """Reads a log once, and then the records that are appended."""

    def __init__(
        self,
        files: Files,
        log: LogListing,
        *,
        from_offset: int = 0,
        pause: Callable[[], object] | None = None,
        on_unreadable: Callable[[SegmentFile, OSError], object] | None = None,
    ) -> None:
        """Create a reader.

        `from_offset` skips segments that are wholly below it. `pause` is called before an unfinished batch at
        the end is read again, because it may be in the middle of a write. `on_unreadable` gets an unreadable
        segment, and the reader continues with the next one.
        """
        self.log = log
        self.next_offset = from_offset
        """The offset at which the reading continues."""
        self._files = files
        self._pause = pause
        self._on_unreadable = on_unreadable
        self._segment = -1
        self._position = 0
        self._mark = (0, b"")
        """The position and the header of the last batch that was read."""

    def read_pieces(self) -> Iterator[Piece]:
        """Yield valid batches and bad bytes, in order. The memory of one batch is used at a time.

        The reader stops in each segment at the size that it had when it was opened. If a listed segment is
        missing, the directory is listed again, because retention may have deleted the segment or compaction
        replaced it. Raises OSError, unless `on_unreadable` skips unreadable segments.
        """
        number, relisted = 0, 0
        while number < len(self.log.segments):
            segment, end_offset = self.log.segments[number], self.log.find_end_offset(number)
            number += 1
            if end_offset is not None and end_offset <= self.next_offset:
                continue
            try:
                is_outdated = yield from self._open_and_read(segment, end_offset, relisted < _MAX_READS)
            except OSError as error:
                if self._on_unreadable is None:
                    raise
                self._on_unreadable(segment, error)
                continue
            if is_outdated:
                number, relisted = 0, relisted + 1

    def _open_and_read(
        self, segment: SegmentFile, end_offset: int | None, may_list_again: bool
    ) -> Generator[Piece, None, bool]:
        """Open a segment and read it like `_read_segment`. Raises OSError."""
        try:
            file = self._files.open_read(segment.path)
        except FileNotFoundError:
            if may_list_again and self._relist_segments():
                return True
            raise
        try:
            return (yield from self._read_segment(file, segment, end_offset, may_list_again))
        finally:
            file.close()

    def _relist_segments(self) -> bool:
        """List the segments again. Return whether they have changed."""
        before, self.log = self.log, relist_log(self._files, self.log)
        return before.segments != self.log.segments

    def read_appended(self) -> Iterator[Piece]:
        """Yield the pieces after those of `read_pieces`, newer segments included. Raises OSError."""
        self.log = relist_log(self._files, self.log)
        return self.read_pieces()

    def _read_segment(
        self, file: File, segment: SegmentFile, end_offset: int | None, may_list_again: bool
    ) -> Generator[Piece, None, bool]:
        """Yield pieces. Return whether the list of segments changed, in which case bad bytes may be an artefact."""
        position, next_offset = 0, segment.base_offset
        if segment.base_offset == self._segment and self._is_unchanged(file):
            position, next_offset = self._position, max(self.next_offset, next_offset)
        scan = SegmentScan(
            file, segment.base_offset, end_offset=end_offset, position=position, next_offset=next_offset
        )
        for piece in scan.scan_pieces():
            found = piece
            if end_offset is None and isinstance(piece, BadBytes) and piece.is_incomplete:
                again = self._reread_torn(file, scan, piece)
                if again is None:
                    return False
                found = again
            if isinstance(found, BadBytes):
                if may_list_again and self._relist_segments():
                    return True
                if self._segment != segment.base_offset:
                    self._mark = (0, b"")
                end = found.position + (0 if found.is_incomplete else found.length)
                self._segment, self._position = segment.base_offset, end
                yield found
            elif found.header.next_offset > self.next_offset:
                self._segment, self._position = segment.base_offset, found.position + len(found.data)
                self._mark = (found.position, found.data[:HEADER_BYTES])
                self.next_offset = found.header.next_offset
                yield found
        return False

    def _is_unchanged(self, file: File) -> bool:
        """Return whether the part of a segment that was read is unchanged.

        Compaction replaces the file; a log may also be cut and grow again.
        """
        at, header = self._mark
        return self._position <= file.size() and file.pread(len(header), at) == header

    def _reread_torn(self, file: File, scan: SegmentScan, torn: BadBytes) -> Piece | None:
        """Read an unfinished batch at the end again; return None if its writer took it back."""
        piece: Piece | None = torn
        for _ in range(_MAX_READS if self._pause is not None else 0):
            assert self._pause is not None
            self._pause()
            again = SegmentScan(file, scan.base_offset, position=torn.position, next_offset=scan.next_offset)
            piece = next(again.scan_pieces(), None)
            if not (isinstance(piece, BadBytes) and piece.is_incomplete):
                break
        return piece
