"""`spark.read.format("consumer_offsets").load(directory)`, and `readStream`.

Call `register(spark)` first. Options:

    path         a broker's data directory, the directory of a partition, or a segment (what `load` is given)
    findings     "true": rows of kind `finding` tell of damage; otherwise damage ends the query with an error
    max_bytes    of segment files in a micro-batch, about; as much as there is without it
    tasks        how many tasks to plan for, about; the driver's cores without it
    until        of a stream that ends: a JSON object of the offset by log partition up to which it is read; a log
                 partition that it does not name is not read

`schema(...)` before `load` chooses among the columns: those that are not asked for are not made.

A stream's offset says for each log partition which log offset is next, and what was found so far: a finding is a
row in the batch whose end offset first has it. Thus findings come exactly once, like records.

Filters on `log_partition`, `group` and `kind` are pushed down. Spark pushes none to a stream: there, rows
of other kinds than those in the local property `consumer_offsets.kinds` are not produced. A second one,
`consumer_offsets.commits_to`, names a directory where a stream's commits are written instead, as in `commit_files`.
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
"""While following a log, how long a transaction stays open or a tail torn before it is worth a finding."""

Offset = dict[str, Any]


class _Settings:
    """The options, parsed. Raises BadInput."""

    def __init__(self, options: Any) -> None:
        self.path = options.get("path")
        if not self.path:
            raise BadInput(f'{FORMAT}: no path was given: load("/directory")')
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
    """Makes the source known to a session, and lets Spark push filters down to sources like this."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(ConsumerOffsets)


class ConsumerOffsets(DataSource):
    """The source. Spark refuses it in a session without the setting that `register` makes."""

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
    """What was asked for. Raises BadInput for what the source does not have."""
    kinds = {field.name: field.dataType for field in from_arrow_schema(SCHEMA)}
    for field in schema:
        if kinds.get(field.name) != field.dataType:
            known = kinds.get(field.name)
            reason = "does not exist" if known is None else f"is {known.simpleString()}"
            raise BadInput(f"{FORMAT}: the column {field.name} {field.dataType.simpleString()} {reason}")
    return pa.schema([SCHEMA.field(field.name) for field in schema])


class _Planned(InputPartition):
    """A task, as Spark hands it to a worker."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)


class OffsetsLogReader(DataSourceReader):
    """Reads the log as it is now, up to the last stable offset of each partition."""

    def __init__(self, settings: _Settings, columns: pa.Schema) -> None:
        self._settings = settings
        self._partitions: set[int] | None = None
        self._wanted = Wanted(schema=columns)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 Spark's name
        for given in filters:
            values = _values(given)
            if values is not None:
                self._narrow(*values)
            yield given  # Spark looks again: a finding has no group, and costs nothing

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
    if task is None:  # what Spark makes of a plan without tasks
        return
    yield from read_task(LogFiles(settings.path), task, wanted, tell_findings=settings.findings)


class OffsetsLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what was added since. One instance plans all batches of a run; others, in workers, only read."""

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
        self._is_frozen = True  # from the first survey on

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
        """What there is from an offset on; in a run with an end, what there was when it began."""
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
                raise BadInput(f"{self._settings.path}: partition {text} was there and is gone")
            first = max(first or 0, seen.first_offset)
            found += ranges(seen, first, next_offset)
            findings += seen._replace(first_offset=first, pieces=_after(seen, first)).findings_until(
                next_offset
            )
        return _planned(found, findings if self._settings.findings else [], self._settings.tasks)

    def _survey_of(self, number: int, first: int | None, next_offset: int) -> Survey | None:
        """A survey that begins at or before `first`: that of this run, or a new one for a batch that an earlier
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


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _start(before: Survey | None, known: dict[str, int], partition: LogPartition) -> Place | int | None:
    """Where the next survey begins: where the last one ended, if everything up to there is read."""
    asked = known.get(str(partition.number))
    place = before.place if before is not None else None
    return place if place is not None and place.next_offset == asked else asked


def _after(seen: Survey, first_offset: int) -> list[Any]:
    return [piece for piece in seen.pieces if piece.first_offset >= first_offset]


def _backlog(seen: Survey, known: int) -> list[tuple[int, int]]:
    """Lengths and ends of the pieces that are not read yet."""
    return [(piece.length, piece.next_offset) for piece in seen.pieces if piece.next_offset > known]


def _name(finding: Finding) -> str:
    return f"{finding.log_partition}/{finding.kind}/{finding.first_offset}"
