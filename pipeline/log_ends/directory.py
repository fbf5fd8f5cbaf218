"""Measure log ends from the topic logs in a broker's directory.

A log ends after its last batch; its end at an earlier time follows from the timestamps of its batches. Only batch
headers are read. Of a large segment, only its time index and the data after the last entry of its offset index are
read: a broker looks up times with the same resolution. As for a broker after a crash, a truncated batch ends a log.

The timestamps are the producers', or the broker's for LogAppendTime topics. A timestamp later than the snapshot
counts as the snapshot's time, and one earlier than a previous record's counts as the latter.

A snapshot of a directory consists of the sizes of the newest segments, which take microseconds each. Their offsets
are read afterwards, because bytes below that size never change. If commits arrived meanwhile, the sizes are taken
again, so that usually no commit falls between the first size and the last.

Source: Kafka's `LogSegment`, `LocalLog`, `OffsetCheckpointFile`.
"""

import contextlib
import os
import re
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from pipeline.errors import BadInput
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.snapshot import Bounds, Snapshot
from pipeline.log_files import LogFiles
from pipeline.segments import TOPIC, find_partitions
from storage.batch import HEADER_BYTES, LOG_OVERHEAD, read_header
from storage.storage_errors import CorruptBatch, UnsupportedMagic, format_error_reason
from storage.topic_partition import TopicPartition

SOURCE: Final = "log_dir"
LARGE_SEGMENT_BYTES: Final = 16 * 1024 * 1024
START_OFFSETS: Final = "log-start-offset-checkpoint"

_SNAPSHOT_TRIES: Final = 20
_PARTITION: Final = re.compile(r"(.+)-([0-9]{1,10})")
_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


_Log = TypeVar("_Log")


class _Mark(NamedTuple):
    """The log reached `end_offset` with records up to `time_ms` (-1: they have no timestamps)."""

    time_ms: int
    end_offset: int


class _Tail(NamedTuple):
    """The newest segment of a log and its size at the snapshot."""

    base_offset: int
    path: str
    size_bytes: int


def snapshot_of_directory(log_dir: str) -> Snapshot:
    """Take a snapshot of all topic logs and the offsets log in a local directory: a broker's data directory, or one
    partition of its offsets log, without topics.

    Raises:
        BadInput: the offsets log is missing, or a file cannot be read.
    """
    offsets_log = _offsets_log(log_dir)
    try:
        topics = _topic_directories(log_dir)
        newest = _tails(offsets_log)
        for _ in range(_SNAPSHOT_TRIES):
            before = newest
            instant_ms = int(time.time() * 1000)
            tails = _tails(topics)
            newest = _tails(offsets_log)
            if newest == before:
                break
        starts = _start_offsets(os.path.join(log_dir, START_OFFSETS))
        return Snapshot(
            instant_ms,
            {
                one: Bounds(max(starts.get(one, 0), _first_offset(topics[one])), end)
                for one, end in _ends_of(tails).items()
            },
            _ends_of(newest),
        )
    except OSError as error:
        raise BadInput(format_error_reason(error)) from error


def offsets_log_in_directory(log_dir: str) -> dict[int, int]:
    """Return the ends of the offsets log's partitions in a local directory, by number.

    Raises:
        BadInput: the directory cannot be read.
    """
    try:
        return _ends_of(_tails(_offsets_log(log_dir)))
    except OSError as error:
        raise BadInput(format_error_reason(error)) from error


def _offsets_log(log_dir: str) -> dict[int, str]:
    return {one.number: one.directory for one in find_partitions(LogFiles(log_dir))}


def _topic_directories(log_dir: str) -> dict[TopicPartition, str]:
    entries = os.scandir(log_dir) if os.path.isdir(log_dir) else ()
    matches = ((_PARTITION.fullmatch(entry.name), entry) for entry in entries)
    return {
        TopicPartition(match[1], int(match[2])): entry.path
        for match, entry in matches
        if match is not None and match[1] != TOPIC and entry.is_dir()
    }


def _tails(directories: Mapping[_Log, str]) -> dict[_Log, _Tail]:
    """Return the newest segments. A directory deleted meanwhile has none."""
    found = {}
    for key, directory in directories.items():
        with contextlib.suppress(FileNotFoundError):
            name = max(filter(_SEGMENT.fullmatch, os.listdir(directory)), default=None)
            if name is not None:
                path = os.path.join(directory, name)
                found[key] = _Tail(int(name.removesuffix(".log")), path, os.stat(path).st_size)
    return found


def _ends_of(tails: Mapping[_Log, _Tail]) -> dict[_Log, int]:
    """Return the log ends, without logs deleted meanwhile."""
    found = {}
    for key, tail in tails.items():
        with contextlib.suppress(FileNotFoundError):
            found[key] = _end_of(tail)
    return found


def _first_offset(directory: str) -> int:
    """Return the base offset of the oldest segment; 0 if the log was deleted meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        names = filter(_SEGMENT.fullmatch, os.listdir(directory))
        return min((int(name.removesuffix(".log")) for name in names), default=0)
    return 0


def _end_of(tail: _Tail) -> int:
    """Return the offset after the last batch within the given size of a segment."""
    for position in (_last_entry(tail.path, tail.size_bytes), 0):  # the index may be damaged
        marks = list(_walk(tail.path, position, tail.size_bytes))
        if marks:
            return marks[-1].end_offset
    return tail.base_offset


def ends_in_directory(
    log_dir: str, partitions: Collection[TopicPartition], period: Period, snapshot: Snapshot
) -> Iterator[LogEnd]:
    """Return, for each of the partitions with a log in `log_dir`, its end at each step of the period in which it
    advanced, and at the time of the snapshot.

    A partition that is not in the snapshot ended before its first record with a later timestamp.

    Raises:
        BadInput: the directory or a file in it cannot be read.
    """
    try:
        starts = _start_offsets(os.path.join(log_dir, START_OFFSETS))
        for partition in sorted(partitions):
            path = os.path.join(log_dir, f"{partition.topic}-{partition.partition}")
            if "/" not in partition.topic and os.path.isdir(path):
                yield from _ends(path, partition, starts.get(partition, 0), period, snapshot)
    except OSError as error:
        raise BadInput(format_error_reason(error)) from error


def _ends(
    path: str, partition: TopicPartition, log_start_offset: int, period: Period, snapshot: Snapshot
) -> Iterator[LogEnd]:
    segments = sorted(
        (int(match[1]), name) for name in os.listdir(path) if (match := _SEGMENT.fullmatch(name))
    )
    if not segments:
        return
    known, instant_ms = snapshot.topics.get(partition), snapshot.instant_ms
    start = max(log_start_offset, segments[0][0])
    if known is not None and known.start is not None:
        start = known.start
    latest = LogEnd(*partition, -1, start, segments[0][0], SOURCE)
    for mark in _marks_of_log(path, segments, period):
        is_later = mark.time_ms > instant_ms if known is None else mark.end_offset > known.end
        if is_later:
            break
        time_ms = max(min(mark.time_ms, instant_ms), latest.at_ms)
        if latest.at_ms >= 0 and period.step(time_ms) != period.step(latest.at_ms):
            yield latest
        latest = latest._replace(at_ms=time_ms, log_end_offset=max(mark.end_offset, latest.log_end_offset))
    if known is not None:
        latest = latest._replace(log_end_offset=max(known.end, latest.log_end_offset))
    yield latest if latest.at_ms >= 0 else latest._replace(at_ms=instant_ms)


def _marks_of_log(path: str, segments: list[tuple[int, str]], period: Period) -> Iterator["_Mark"]:
    """Yield the offsets of a log by time, in order. The start of a segment has no time."""
    for base_offset, name in segments:
        yield _Mark(-1, base_offset)
        yield from _marks(os.path.join(path, name), base_offset, period)


def _marks(path: str, base_offset: int, period: Period) -> Iterator[_Mark]:
    """Yield the offsets of a segment by time, in order, up to its end."""
    size = os.path.getsize(path)
    if size < LARGE_SEGMENT_BYTES:
        yield from _walk(path, 0, size)
        return
    for time_ms, relative_offset in _entries(f"{path.removesuffix('.log')}.timeindex", _TIME_ENTRY):
        if time_ms >= period.start_ms:
            yield _Mark(time_ms, base_offset + relative_offset + 1)
    yield from _walk(path, _last_entry(path, size), size)


def _last_entry(path: str, size: int) -> int:
    """Return the last position in the segment's offset index below `size`; 0 without one."""
    entries = _entries(f"{path.removesuffix('.log')}.index", _OFFSET_ENTRY)
    return max((position for _, position in entries if 0 < position < size), default=0)


def _entries(path: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Return the entries of an index file before its preallocated zeros; none if it is missing."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) - len(data) % entry.size
    for first, second in entry.iter_unpack(data[:whole]):
        if first == 0 and second == 0:
            return
        yield first, second


def _walk(path: str, position: int, size: int) -> Iterator[_Mark]:
    """Yield the batches of a segment from a position up to `size` bytes."""
    with open(path, "rb", buffering=64 * 1024) as file:
        file.seek(position)
        while position + HEADER_BYTES <= size:
            try:
                header = read_header(file.read(HEADER_BYTES))
            except (CorruptBatch, UnsupportedMagic):
                return
            position += header.size_bytes
            if position > size:
                return
            yield _Mark(header.max_timestamp_ms, header.next_offset)
            file.seek(header.batch_length + LOG_OVERHEAD - HEADER_BYTES, os.SEEK_CUR)


def _start_offsets(path: str) -> dict[TopicPartition, int]:
    """Read the log start offsets from a broker's checkpoint: a version, a count, and lines of topic, partition,
    offset.
    """
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()[2:]
    starts = {}
    for line in lines:
        topic, _, numbers = line.partition(" ")
        partition, _, offset = numbers.partition(" ")
        if partition.isdigit() and offset.isdigit():
            starts[TopicPartition(topic, int(partition))] = int(offset)
    return starts
