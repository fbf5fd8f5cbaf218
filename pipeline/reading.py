"""Read the ranges of one Spark task from the log, as Arrow."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.decode.frames import Flags, Frames
from pipeline.decode.rows import FINDING, Finding, Row, record_batch, record_batches
from pipeline.decode.vectorised import Wanted, decode_frames
from pipeline.log_files import LogFiles
from pipeline.segments import LogPartition
from pipeline.survey import Aborted, Survey
from pipeline.walk import CHUNK_BYTES, Place, Walk

MIN_TASK_BYTES: Final = 1 << 18
"""Of the log. Each task of an ingest writes a file, so small tasks would write small files."""
MANY_ROWS: Final = 64
"""The limit for rows as Python objects. An Arrow batch costs about as much as decoding this many."""


class Damaged(Exception):
    """The log is damaged, and the reader did not request findings."""


class LogChanged(Exception):
    """The log no longer contains records that the planned task covers."""


class Range(NamedTuple):
    """Offsets of a partition and their position in a file."""

    partition: LogPartition
    path: str
    position: int
    length: int
    first_offset: int
    next_offset: int
    aborted: tuple[Aborted, ...] = ()
    """The aborted transactions that may overlap the range."""


class Task(NamedTuple):
    """Ranges, and findings from the planning."""

    ranges: tuple[Range, ...]
    findings: tuple[Finding, ...] = ()


def ranges(survey: Survey, first_offset: int, next_offset: int) -> list[Range]:
    """Return the pieces of a survey between two offsets."""
    found = []
    for piece in survey.pieces:
        begin, end = max(piece.first_offset, first_offset), min(piece.next_offset, next_offset)
        if begin < end:
            aborted = tuple(
                one for one in survey.aborted if one.first_offset < end and one.marker_offset >= begin
            )
            found.append(
                Range(survey.partition, piece.path, piece.position, piece.length, begin, end, aborted)
            )
    return found


def pack(wanted: Sequence[Range], tasks: int) -> list[Task]:
    """Distribute ranges in order to about `tasks` tasks of equal size, or fewer if these would be small. Adjacent
    ranges of a file are merged.
    """
    share = max(MIN_TASK_BYTES, -(-sum(item.length for item in wanted) // max(1, tasks)))
    packed: list[list[Range]] = []
    room = 0
    for item in wanted:
        if room <= 0:
            packed.append([])
            room = share
        room -= item.length
        last = packed[-1][-1] if packed[-1] else None
        if last is not None and last.path == item.path and last.position + last.length == item.position:
            aborted = tuple(dict.fromkeys((*last.aborted, *item.aborted)))
            length = last.length + item.length
            packed[-1][-1] = last._replace(length=length, next_offset=item.next_offset, aborted=aborted)
        else:
            packed[-1].append(item)
    return [Task(tuple(some)) for some in packed]


def refuse_damage(findings: Iterable[Finding]) -> None:
    """Check findings for damage.

    Raises:
        Damaged: a finding reports damage.
    """
    for finding in findings:
        if finding.kind == "damage":
            raise Damaged(f"{finding.path}: byte {finding.position}: {finding.detail}")


def read_task(
    files: LogFiles, task: Task, wanted: Wanted, *, tell_findings: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of a task in batches, each with only commits or with none.

    Raises:
        Damaged: the log is damaged and `tell_findings` is false.
        LogChanged: the log no longer contains the range.
        OSError: a file cannot be read.
    """
    findings = list(task.findings)
    rows: list[Row] = []
    for item in task.ranges:
        yield from _read_range(files, item, wanted, findings, rows)
        if not tell_findings:
            refuse_damage(findings)
    yield from record_batches(rows, wanted.schema)
    if findings and tell_findings and FINDING in wanted.kinds:
        yield record_batch([finding.row() for finding in findings], wanted.schema)


def _read_range(
    files: LogFiles, item: Range, wanted: Wanted, findings: list[Finding], rows: list[Row]
) -> Iterator[pa.RecordBatch]:
    """Yield the commits of a range. Append other wanted rows to `rows`, and yield these as well once there are
    many.
    """
    inside = replace(wanted, first_offset=item.first_offset, next_offset=item.next_offset)
    place = Place(item.path, item.position, item.first_offset)
    walk = Walk(files, item.partition, place, min(CHUNK_BYTES, item.length))
    for chunk in walk:
        frames = chunk.frames.select(chunk.frames.base_offsets < item.next_offset)
        counting = frames.select(~frames.is_control & ~_is_aborted(frames, item.aborted))
        if len(counting):
            data, number = chunk.data[: frames.end], item.partition.number
            decoded = decode_frames(data, counting, number, inside, chunk.path, chunk.position)
            findings += decoded.findings
            if decoded.commits is not None:
                yield decoded.commits
            rows += decoded.rows
            if len(rows) >= MANY_ROWS:
                yield from record_batches(rows, wanted.schema)
                rows.clear()
        if walk.next_offset >= item.next_offset:
            return
    where = walk.stop
    reason = f"{where.path}: byte {where.position}: {where.reason}" if where else item.partition.directory
    raise LogChanged(f"{reason}: the log ends at {walk.next_offset}, but ended at {item.next_offset} before")


def _is_aborted(frames: Frames, aborted: Sequence[Aborted]) -> Flags:
    found = np.zeros(len(frames), bool)
    if aborted and frames.is_transactional.any():
        producers, bases = frames.field("producer_id"), frames.base_offsets
        for one in aborted:
            found |= (
                frames.is_transactional
                & (producers == one.producer_id)
                & (bases >= one.first_offset)
                & (bases < one.marker_offset)
            )
    return found
