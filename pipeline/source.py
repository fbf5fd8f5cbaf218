"""The Spark data source `consumer_offsets`, for `spark.read.format("consumer_offsets").load(directory)` and
`readStream`.

Call `register(spark)` first. Options:

    path         a broker's data directory, a partition's directory, or a segment (the argument of `load`)
    findings     "true": return damage as rows of kind `finding`; otherwise damage fails the query
    max_bytes    the approximate segment bytes in a micro-batch; without it a batch takes all available
    tasks        the approximate number of tasks; defaults to the driver's cores
    until        the end of a stream: a JSON object of end offsets by log partition; other log partitions are not
                 read

`schema(...)` before `load` selects columns; others are not computed.

A stream's offset contains the next log offset and the findings so far of each log partition. A finding is a row of
the batch with the first end offset that contains it. Thus findings are delivered exactly once, like records.

Spark pushes filters on `log_partition`, `group` and `kind` down, but not for a stream. A stream returns only the
kinds of rows in the local property `consumer_offsets.kinds`. With the local property `consumer_offsets.commits_to`,
a stream writes its commits to that directory instead, as `commit_files` describes.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pipeline.commit_files import set_aside
from pipeline.decode.rows import COMMIT, KINDS, SCHEMA, Finding
from pipeline.decode.vectorised import Wanted
from pipeline.errors import BadInput
from pipeline.log_files import LogFiles
from pipeline.placement import that_may_hold
from pipeline.reading import Range, Task, pack, ranges, read_task, refuse_damage
from pipeline.segments import LogPartition, find_partitions
from pipeline.survey import Survey, survey
from pipeline.walk import CHUNK_BYTES, Place

FORMAT: Final = "consumer_offsets"
KINDS_PROPERTY: Final = "consumer_offsets.kinds"
COMMITS_TO_PROPERTY: Final = "consumer_offsets.commits_to"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
MIN_CHUNK_BYTES: Final = 4096
LASTING_S: Final = 60
"""The seconds that a transaction may stay open, or a tail torn, before following a log reports it."""

Offset = dict[str, Any]


class _Settings:
    """The parsed options.

    Raises:
        BadInput: an option is invalid.
    """

    def __init__(self, options: Any) -> None:
        self.path = options.get("path")
        if not self.path:
            raise BadInput(f'{FORMAT}: the path is missing: call load("/directory")')
        self.findings = str(options.get("findings", "false")).lower() == "true"
        self.max_bytes = self._number(options, "max_bytes")
        self.tasks = self._number(options, "tasks") or os.cpu_count() or 1
        until = options.get("until")
        self.until: dict[str, int] | None = None if until is None else json.loads(until)

    @staticmethod
    def _number(options: Any, name: str) -> int | None:
        text = options.get(name)
        if text is None:
            return None
        if not str(text).isdigit() or int(text) < 1:
            raise BadInput(f"{FORMAT}: {name} must be a positive number, not {text!r}")
        return int(text)


def register(spark: SparkSession) -> None:
    """Register the source in a session and enable filter push-down for Python data sources."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(ConsumerOffsets)


class ConsumerOffsets(DataSource):
    """The data source. Spark rejects it in a session without the setting that `register` makes."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return OffsetsLogReader(_Settings(self.options), _columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 Spark's name
        return OffsetsLogStreamReader(_Settings(self.options), _columns(schema))


def _columns(schema: StructType) -> pa.Schema:
    """Return the requested columns.

    Raises:
        BadInput: the source does not have a column.
    """
    kinds = {field.name: field.dataType for field in from_arrow_schema(SCHEMA)}
    for field in schema:
        if kinds.get(field.name) != field.dataType:
            known = kinds.get(field.name)
            reason = "does not exist" if known is None else f"is {known.simpleString()}"
            raise BadInput(f"{FORMAT}: the column {field.name} {field.dataType.simpleString()} {reason}")
    return pa.schema([SCHEMA.field(field.name) for field in schema])


class _Planned(InputPartition):
    """A task in the form in which Spark sends it to a worker."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)


class OffsetsLogReader(DataSourceReader):
    """Reads the present log up to the last stable offset of each partition."""

    def __init__(self, settings: _Settings, columns: pa.Schema) -> None:
        self._settings = settings
        self._partitions: set[int] | None = None
        self._wanted = Wanted(schema=columns)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 Spark's name
        for given in filters:
            values = _values(given)
            if values is not None:
                self._narrow(*values)
            yield given  # spark applies the filter again; a finding has no group and costs nothing

    def _narrow(self, column: str, values: set[Any]) -> None:
        if column == "log_partition":
            self._partitions = values if self._partitions is None else self._partitions & values
        elif column == "kind":
            self._wanted = replace(self._wanted, kinds=self._wanted.kinds & values)
        elif column == "group":
            known = self._wanted.groups
            groups = frozenset(values) if known is None else known & values
            self._wanted = replace(self._wanted, groups=groups)

    def partitions(self) -> list[InputPartition]:
        files = LogFiles(self._settings.path)
        found: list[Range] = []
        findings: list[Finding] = []
        for partition in self._looked_at(files):
            seen = survey(files, partition, None)
            found += ranges(seen, seen.first_offset, seen.next_offset)
            findings += seen.findings + seen.passing + seen.findings_until(seen.next_offset)
        if not self._settings.findings:
            refuse_damage(findings)
            findings = []
        return _planned(found, findings, self._settings.tasks)

    def _looked_at(self, files: LogFiles) -> list[LogPartition]:
        partitions = find_partitions(files)
        if self._partitions is not None:
            partitions = [one for one in partitions if one.number in self._partitions]
        groups = self._wanted.groups
        return partitions if groups is None else that_may_hold(files, partitions, groups)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._settings, partition, self._wanted)


def _values(given: Filter) -> tuple[str, set[Any]] | None:
    if isinstance(given, EqualTo) and len(given.attribute) == 1:
        return given.attribute[0], {given.value}
    if isinstance(given, In) and len(given.attribute) == 1:
        return given.attribute[0], set(given.value)
    return None


def _planned(found: list[Range], findings: list[Finding], tasks: int) -> list[InputPartition]:
    planned = pack(found, tasks)
    if findings:
        planned.append(Task((), tuple(findings)))
    return [_Planned(task) for task in planned]


def _read(settings: _Settings, partition: InputPartition, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    task = partition.value
    if task is None:  # the form in which Spark requires an empty plan
        return
    yield from read_task(LogFiles(settings.path), task, wanted, tell_findings=settings.findings)


class OffsetsLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log's additions. One instance plans all batches of a run; instances in workers only read."""

    def __init__(self, settings: _Settings, columns: pa.Schema) -> None:
        self._settings = settings
        self._columns = columns
        self._is_frozen = False
        self._surveys: dict[int, Survey] | None = None
        self._seen_s: dict[str, float] = {}

    def initialOffset(self) -> Offset:  # noqa: N802 Spark's name
        return {"next_offsets": {}, "findings": {}, "bytes_read": 0, "bytes_left": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 Spark's name
        limit = self._settings.max_bytes
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        self._is_frozen = True  # set by the first survey

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 Spark's name
        surveys = self._look(start)
        known = start["next_offsets"]
        backlog = {number: _backlog(seen, known.get(str(number), 0)) for number, seen in surveys.items()}
        total = sum(sum(length for length, _ in pieces) for pieces in backlog.values())
        share = 1.0
        if isinstance(limit, ReadMaxBytes) and total > limit.max_bytes:
            share = limit.max_bytes / total
        next_offsets, taken = dict(known), 0
        for number, pieces in sorted(backlog.items()):
            room = share * sum(length for length, _ in pieces)
            for length, next_offset in pieces:
                if room <= 0:
                    break
                next_offsets[str(number)] = next_offset
                taken += length
                room -= length
        findings = self._findings(surveys)
        if not taken and findings.keys() <= start["findings"].keys():
            return start
        return {
            "next_offsets": next_offsets,
            "findings": findings,
            "bytes_read": start["bytes_read"] + taken,
            "bytes_left": total - taken,
        }

    def _look(self, start: Offset) -> dict[int, Survey]:
        """Survey from an offset. A run with an end uses the surveys of its start."""
        if self._surveys is not None and self._is_frozen:
            return self._surveys
        files = LogFiles(self._settings.path)
        partitions = find_partitions(files)
        known = start["next_offsets"]
        chunk_bytes = CHUNK_BYTES
        if self._settings.max_bytes is not None:
            fair = self._settings.max_bytes // (2 * len(partitions))
            chunk_bytes = min(CHUNK_BYTES, max(MIN_CHUNK_BYTES, fair))
        before = self._surveys or {}
        self._surveys = {
            partition.number: survey(
                files,
                partition,
                _start(before.get(partition.number), known, partition),
                chunk_bytes,
                self._until(partition),
            )
            for partition in partitions
        }
        return self._surveys

    def _until(self, partition: LogPartition) -> int | None:
        until = self._settings.until
        return None if until is None else until.get(str(partition.number), 0)

    def _findings(self, surveys: dict[int, Survey]) -> dict[str, list[Any]]:
        now_s = time.monotonic()
        lasting = [finding for seen in surveys.values() for finding in seen.findings]
        passing = {_name(finding): finding for seen in surveys.values() for finding in seen.passing}
        self._seen_s = {name: self._seen_s.get(name, now_s) for name in passing}
        told = {_name(finding): list(finding) for finding in lasting}
        for name, finding in passing.items():
            if self._is_frozen or now_s - self._seen_s[name] >= LASTING_S:
                told[name] = list(finding)
        return dict(sorted(told.items()))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        findings = [
            Finding(*end["findings"][name]) for name in end["findings"].keys() - start["findings"].keys()
        ]
        findings.sort(key=lambda finding: (finding.log_partition, finding.first_offset))
        if not self._settings.findings:
            refuse_damage(findings)
        found: list[Range] = []
        for text, next_offset in end["next_offsets"].items():
            first = start["next_offsets"].get(text)
            if next_offset == first:
                continue
            seen = self._survey_of(int(text), first, next_offset)
            if seen is None:
                raise BadInput(f"{self._settings.path}: partition {text} no longer exists")
            first = max(first or 0, seen.first_offset)
            found += ranges(seen, first, next_offset)
            findings += seen._replace(first_offset=first, pieces=_after(seen, first)).findings_until(
                next_offset
            )
        return _planned(found, findings if self._settings.findings else [], self._settings.tasks)

    def _survey_of(self, number: int, first: int | None, next_offset: int) -> Survey | None:
        """Return a survey that starts at or before `first`: this run's, or a new one for a batch that an earlier
        run planned.
        """
        seen = (self._surveys or {}).get(number)
        if (
            seen is not None
            and seen.first_offset <= (first or seen.first_offset)
            and next_offset <= seen.next_offset
        ):
            return seen
        files = LogFiles(self._settings.path)
        partition = next((one for one in find_partitions(files) if one.number == number), None)
        return None if partition is None else survey(files, partition, first)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        asked, directory = (_property(name) for name in (KINDS_PROPERTY, COMMITS_TO_PROPERTY))
        kinds = frozenset(KINDS if asked is None else asked.split(","))
        if directory is None:
            return _read(self._settings, partition, Wanted(kinds, schema=self._columns))
        return set_aside(_read(self._settings, partition, Wanted(kinds | {COMMIT})), directory)


def is_up_to_date(options: dict[str, str], last: Offset | None) -> bool:
    """Return whether a stream that stopped at the offset `last` would read nothing; False without an offset.

    Raises:
        BadInput, OSError: the log is unusable.
    """
    if last is None:
        return False
    reader = OffsetsLogStreamReader(_Settings(options), SCHEMA)
    reader.prepareForTriggerAvailableNow()
    return reader.latestOffset(last, ReadAllAvailable()) == last


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _start(before: Survey | None, known: dict[str, int], partition: LogPartition) -> Place | int | None:
    """Return the start of the next survey: the end of the last one if everything before it is read."""
    asked = known.get(str(partition.number))
    place = before.place if before is not None else None
    return place if place is not None and place.next_offset == asked else asked


def _after(seen: Survey, first_offset: int) -> list[Any]:
    return [piece for piece in seen.pieces if piece.first_offset >= first_offset]


def _backlog(seen: Survey, known: int) -> list[tuple[int, int]]:
    """Return lengths and end offsets of the unread pieces."""
    return [(piece.length, piece.next_offset) for piece in seen.pieces if piece.next_offset > known]


def _name(finding: Finding) -> str:
    return f"{finding.log_partition}/{finding.kind}/{finding.first_offset}"
