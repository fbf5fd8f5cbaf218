"""Log ends from the topic logs in a broker's directory.

A log ends after its last batch, and where it ended at a given time follows from the times of its batches. Only
headers are read. Of a large segment only its time index and what follows the last entry of its offset index are
read, which is as fine as a broker itself looks for times. A batch that is cut short ends a log, as it does for
a broker after a crash.

The times are those of the producers, unless the topic takes the broker's; a time in the future counts as now,
and one that is earlier than that of a message before it counts as that one's.

Source: Kafka's `LogSegment`, `LocalLog`, `OffsetCheckpointFile`.
"""

import os
import re
import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from pipeline.errors import BadInput
from pipeline.log_ends.log_end import LogEnd, Period
from storage.batch import HEADER_BYTES, LENGTH_END, read_header
from storage.errors import CorruptBatch, UnsupportedMagic
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

SOURCE: Final = "log_dir"
LARGE_SEGMENT_BYTES: Final = 16 * 1024 * 1024
START_OFFSETS: Final = "log-start-offset-checkpoint"

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class _Mark(NamedTuple):
    """The log reached `end_offset` with messages up to `time_ms` (-1: they carry no time)."""

    time_ms: int
    end_offset: int


def ends_in_directory(
    log_dir: str, partitions: Collection[TopicPartition], period: Period, now_ms: int
) -> Iterator[LogEnd]:
    """For each of the partitions that has a log in `log_dir`: its end, at each step of the period in which it
    moved, and now.

    Raises BadInput when the directory or a file in it cannot be read.
    """
    try:
        starts = _start_offsets(os.path.join(log_dir, START_OFFSETS))
        for partition in sorted(partitions):
            path = os.path.join(log_dir, f"{partition.topic}-{partition.partition}")
            if "/" not in partition.topic and os.path.isdir(path):
                yield from _ends(path, partition, starts.get(partition, 0), period, now_ms)
    except OSError as error:
        raise BadInput(reason_of(error)) from error


def _ends(
    path: str, partition: TopicPartition, log_start_offset: int, period: Period, now_ms: int
) -> Iterator[LogEnd]:
    segments = sorted(
        (int(match[1]), name) for name in os.listdir(path) if (match := _SEGMENT.fullmatch(name))
    )
    if not segments:
        return
    start = max(log_start_offset, segments[0][0])
    latest = LogEnd(*partition, -1, start, segments[0][0], SOURCE)
    for base_offset, name in segments:
        latest = latest._replace(log_end_offset=max(latest.log_end_offset, base_offset))
        for mark in _marks(os.path.join(path, name), base_offset, period):
            time_ms = max(min(mark.time_ms, now_ms), latest.at_ms)
            if latest.at_ms >= 0 and period.step(time_ms) != period.step(latest.at_ms):
                yield latest
            latest = latest._replace(at_ms=time_ms, log_end_offset=mark.end_offset)
    yield latest if latest.at_ms >= 0 else latest._replace(at_ms=now_ms)


def _marks(path: str, base_offset: int, period: Period) -> Iterator[_Mark]:
    """How far a segment reached when, in order; the last one is its end."""
    size = os.path.getsize(path)
    if size < LARGE_SEGMENT_BYTES:
        yield from _walk(path, 0)
        return
    stem = path.removesuffix(".log")
    position = 0
    for time_ms, relative_offset in _entries(f"{stem}.timeindex", _TIME_ENTRY):
        if time_ms >= period.start_ms:
            yield _Mark(time_ms, base_offset + relative_offset + 1)
    for _, entry in _entries(f"{stem}.index", _OFFSET_ENTRY):
        if position < entry < size:
            position = entry
    yield from _walk(path, position)


def _entries(path: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """The entries of an index file up to the zeros that a broker preallocates; none when it is missing."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) - len(data) % entry.size
    for first, second in entry.iter_unpack(data[:whole]):
        if first == 0 and second == 0:
            return
        yield first, second


def _walk(path: str, position: int) -> Iterator[_Mark]:
    size = os.path.getsize(path)
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
            file.seek(header.batch_length + LENGTH_END - HEADER_BYTES, os.SEEK_CUR)


def _start_offsets(path: str) -> dict[TopicPartition, int]:
    """From a broker's checkpoint: lines of topic, partition and offset after a version and a count."""
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
