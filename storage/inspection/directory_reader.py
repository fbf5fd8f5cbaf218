"""What lies at a path that somebody wants to look at: a segment, a partition's log, or a whole data directory.

Read-only, without a lock, beside a process that writes: what is listed may be gone when it is opened. Directories
are those of this engine or of a Kafka broker; what else a broker keeps there (indexes, snapshots, files on their
way out) is known by its name and passed over.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from storage.batch import HEADER_BYTES, read_header
from storage.checkpoint import RECOVERY_POINTS
from storage.errors import CorruptBatch, FileError
from storage.files import Files
from storage.inspection.segment_scan import SegmentScan
from storage.recovery.swap import CLEANED_SUFFIX
from storage.segment import LOG_SUFFIX
from storage.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition

_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
_ON_THE_WAY_OUT: Final = re.compile(r"(.+)\.[0-9a-f]{32}-(?:delete|future|stray)")
_SEGMENT: Final = re.compile(r"([0-9]{20})\.log(?:\..+)?", re.DOTALL)
_LIVE_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_SWAP: Final = re.compile(r"[0-9]{20}\.log\.swap")
_OF_A_DATA_DIRECTORY: Final = ("meta.properties", ".lock", RECOVERY_POINTS)
_OTHER_FILES: Final = {
    INDEX_SUFFIX: "an offset index",
    TIME_INDEX_SUFFIX: "a time index",
    ".txnindex": "an index of aborted transactions",
    ".snapshot": "a snapshot of producers",
}


class NotALog(FileError):
    """There is no log at a path: nothing, or something else."""


class SegmentFile(NamedTuple):
    """A segment's `.log` file."""

    path: str
    base_offset: int


class LogFiles(NamedTuple):
    """The log of one partition, or the one segment of it that was asked for."""

    directory: str
    name: TopicPartition | None
    """None where the directory is not called as Kafka calls it."""
    segments: tuple[SegmentFile, ...]
    """By base offset."""
    is_whole: bool
    """All segments of the directory, not one that was named."""

    def end_offset(self, number: int) -> int | None:
        """Where the segment after the one of this number begins, None for the last."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else None


def find_logs(files: Files, path: str) -> list[LogFiles]:
    """The logs at a path, by topic and partition.

    In: a segment, a partition's directory or a data directory; absolute. Raises NotALog, OSError.
    """
    if not files.exists(path):
        raise NotALog(path, "does not exist")
    if not files.is_directory(path):
        return [_lone_segment(files, path)]
    names = files.listdir(path)
    if any(_LIVE_SEGMENT.fullmatch(name) or _SWAP.fullmatch(name) for name in names):
        return [_log(files, path, names)]
    logs = [
        _log(files, directory, list_names(files, directory)) for directory in _partitions(files, path, names)
    ]
    # Many a directory's name ends in a number: by itself that does not make it a partition.
    if any(log.segments for log in logs) or (logs and _is_data_directory(files, path)):
        return sorted(logs, key=_name)
    if not names:
        raise NotALog(path, "is an empty directory")
    raise NotALog(path, "holds neither segments of a log nor partitions with such")


def list_again(files: Files, log: LogFiles) -> LogFiles:
    """The log as it is now; the same where one segment was named. Raises OSError."""
    return _log(files, log.directory, list_names(files, log.directory)) if log.is_whole else log


def base_offset_of(log: LogFiles, path: str) -> int:
    """What a segment of a log is named for, one that was begun after the log was listed too."""
    match = _SEGMENT.fullmatch(os.path.basename(path))
    return log.segments[0].base_offset if match is None else int(match[1])


def data_directory_of(files: Files, log: LogFiles) -> str | None:
    """The data directory that a log is part of, as far as can be told; None for a log by itself."""
    if log.name is None or os.path.basename(log.directory) != str(log.name):
        return None
    parent = os.path.dirname(log.directory)
    return parent if _is_data_directory(files, parent) else None


def _is_data_directory(files: Files, path: str) -> bool:
    return any(files.exists(f"{path}/{name}") for name in _OF_A_DATA_DIRECTORY)


def _name(log: LogFiles) -> TopicPartition:
    assert log.name is not None
    return log.name


def _partitions(files: Files, path: str, names: list[str]) -> Iterator[str]:
    for name in names:
        directory = os.path.join(path, name)
        if _PARTITION.fullmatch(name) and files.is_directory(directory):
            yield directory


def list_names(files: Files, directory: str) -> list[str]:
    """Names in a partition's directory; none where it cannot be listed, which `unusable_files` says."""
    try:
        return files.listdir(directory)
    except OSError:
        return []


def _log(files: Files, directory: str, names: list[str]) -> LogFiles:
    segments = [
        SegmentFile(os.path.join(directory, name), int(name[: -len(LOG_SUFFIX)]))
        for name in names
        if _LIVE_SEGMENT.fullmatch(name)
    ]
    for swap, end_offset in _swaps(files, directory, names):
        segments = [
            segment for segment in segments if not swap.base_offset <= segment.base_offset < end_offset
        ]
        segments.append(swap)
    return LogFiles(directory, partition_of(directory), tuple(sorted(segments, key=_base_offset)), True)


def _swaps(files: Files, directory: str, names: list[str]) -> Iterator[tuple[SegmentFile, int]]:
    """Compacted segments on the way to their place, which count already, and where each one ends.

    By the rules of `recovery/swap.py`; but one that is damaged counts as far as it can be read.
    """
    unwritten = min((name for name in names if name.endswith(CLEANED_SUFFIX)), default="~")
    for name in names:
        if not _SWAP.fullmatch(name) or name >= unwritten:
            continue
        swap = SegmentFile(os.path.join(directory, name), int(name[:20]))
        try:
            file = files.open_read(swap.path)
        except OSError:
            continue  # in its place meanwhile, or what `unusable_files` names
        try:
            scan = SegmentScan(file, swap.base_offset)
            for _ in scan.pieces():
                pass
            yield swap, max(scan.next_offset, swap.base_offset + 1)
        finally:
            file.close()


def _base_offset(segment: SegmentFile) -> int:
    return segment.base_offset


def partition_of(directory: str) -> TopicPartition | None:
    """The partition that a directory's name tells, one that is being deleted or moved too."""
    name = os.path.basename(directory)
    leaving = _ON_THE_WAY_OUT.fullmatch(name)
    match = _PARTITION.fullmatch(name if leaving is None else leaving[1])
    return None if match is None else TopicPartition(match[1], int(match[2]))


def _lone_segment(files: Files, path: str) -> LogFiles:
    directory, name = os.path.split(path)
    match = _SEGMENT.fullmatch(name)
    if match is not None:
        base_offset = int(match[1])
    else:
        what = _OTHER_FILES.get(os.path.splitext(name)[1])
        if what is not None:
            raise NotALog(path, f"is {what}, not the log itself")
        base_offset = _first_offset(files, path)
    return LogFiles(directory, partition_of(directory), (SegmentFile(path, base_offset),), False)


def _first_offset(files: Files, path: str) -> int:
    """Of a file whose name tells nothing. Raises NotALog where it does not begin with a batch."""
    file = files.open_read(path)
    try:
        base_offset = read_header(file.pread(HEADER_BYTES, 0)).base_offset
        if any(
            isinstance(piece, StoredBatch) for piece in islice(SegmentScan(file, base_offset).pieces(), 1)
        ):
            return base_offset
    except CorruptBatch as error:
        raise NotALog(path, f"is no segment of a log: {error.reason}") from error
    finally:
        file.close()
    raise NotALog(path, "is no segment of a log")
