"""The pipeline: decode, read, write and derive, beside Kafka's own log tool on the same files."""

import asyncio
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.offsets_log import Written, write_log
from benchmarks.process_tree import command_of, descendants, peak_resident_bytes, tree_cpu_seconds
from benchmarks.report import Absolute, Report, spread
from tests.interop.build import CannotBuild
from tests.kafka_log.artifacts import dump_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS: Final = 1_000_000
GROWTH: Final = 4
ROUNDS: Final = 3
SOME_BYTES: Final = 30_000_000
"""The size of the files for slow measurements."""
CHUNK_BYTES: Final = 1 << 20
TRIES: Final = 5
TICK_S: Final = 0.01
"""The resolution of CPU times in seconds."""
_WORKER: Final = "pyspark.daemon"

NOTHING: Final = "source to nothing, the columns of commits"
PARQUET: Final = "source to Parquet, the same"
STREAMING: Final = "streaming to all silver tables, one batch"
LATEST: Final = "latest offsets of the silver commits"
TO_PLAIN: Final = "decoder, to the plain one"
TO_KAFKA: Final = "decoder, to Kafka's tool"
WORKER: Final = "peak memory of a Python worker"
FIGURES: Final = (
    *(TO_PLAIN, TO_KAFKA, WORKER),
    *(f"{what}, to the decoder" for what in (NOTHING, PARQUET, STREAMING)),
    *(f"{what}: growth" for what in (NOTHING, PARQUET, STREAMING, LATEST)),
    *(f"{what}: slope" for what in (NOTHING, STREAMING, LATEST)),
)


class Used(NamedTuple):
    """The CPU seconds of a workload, one value per round."""

    what: str
    rounds: list[float]
    written: Written
    """The log of the workload."""

    def row(self) -> list[str]:
        """Return a row of the report, per CPU second, that is per second of one core."""
        megabytes = [self.written.bytes / 1e6 / cpu_s for cpu_s in self.rounds]
        rate = [self.written.records / 1e6 / cpu_s for cpu_s in self.rounds]
        figures = (spread(megabytes, ".0f"), spread(rate, ".2f"), spread(self.rounds, ".1f"))
        return [self.what, *map(Absolute, figures)]

    @property
    def megabytes_a_second(self) -> float:
        """Return megabytes per CPU second in the median round."""
        return self.written.bytes / 1e6 / median(self.rounds)

    def slope(self, smaller: "Used") -> tuple[float, float]:
        """Return megabytes and millions of records per CPU second for the difference to a smaller workload. This
        eliminates the fixed costs.
        """
        cpu_s = max(self.best - smaller.best, TICK_S)
        more, fewer = self.written, smaller.written
        return (more.bytes - fewer.bytes) / 1e6 / cpu_s, (more.records - fewer.records) / 1e6 / cpu_s

    @property
    def best(self) -> float:
        """Return the fastest round."""
        return min(self.rounds)


async def measure(commits: int = COMMITS, rounds: int = ROUNDS) -> Report:
    """Run all measurements in a thread, because Spark blocks."""
    return await asyncio.to_thread(_measure, commits, rounds)


def _measure(commits: int, rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as place:
        small, large = (os.path.join(place, name) for name in ("small", "large"))
        written = write_log(small, commits)
        grown = write_log(large, commits * GROWTH)
        report = _report(written, grown, rounds)
        paths = some(sorted(str(path) for path in Path(small).rglob("*.log")))
        decoder = _decoder(paths, rounds, is_plain=False)
        plain = _decoder(paths, rounds, is_plain=True)
        report.rows += [decoder.row(), plain.row()]
        report.figures[TO_PLAIN] = decoder.megabytes_a_second / plain.megabytes_a_second
        _beside_kafkas_tool(report, decoder, paths, rounds)
        with _session() as spark:
            through = _through_spark(report, spark, place, [(small, written), (large, grown)], rounds)
    for what in (NOTHING, PARQUET, STREAMING):
        speed = through[what].megabytes_a_second
        report.figures[f"{what}, to the decoder"] = speed / decoder.megabytes_a_second
    return report


def _report(written: Written, grown: Written, rounds: int) -> Report:
    return Report(
        "Pipeline: reading the offsets log",
        f"A made-up log of {grown.records / 1e6:.1f} million records, {grown.bytes / 1e6:.0f} MB in 50 "
        f"partitions, uncompressed; {rounds} rounds after one that is not counted. All figures are per second of "
        "CPU time, of the process and everything below it (driver, JVM, Python workers), which is to say per core "
        "and second; records are commits and group records. The decoders and Kafka's tool read "
        f"{SOME_BYTES / 1e6:.0f} MB. Checksums are verified everywhere. Growth compares the least disturbed rounds "
        f"with those on a log of {written.bytes / 1e6:.0f} MB, in turn with the others: {GROWTH}.0 is linear. The "
        "slope is what the larger log has more, by what it takes more: what Spark takes to begin falls out.",
        ["what", "MB per core-second", "million records per core-second", "CPU, s"],
    )


def some(paths: list[str]) -> list[str]:
    """Return the first files that together have SOME_BYTES."""
    chosen: list[str] = []
    while sum(map(os.path.getsize, chosen)) < SOME_BYTES and len(chosen) < len(paths):
        chosen.append(paths[len(chosen)])
    return chosen


def _decoder(paths: list[str], rounds: int, *, is_plain: bool) -> Used:
    from pipeline.decode.frames import read_frames
    from pipeline.decode.plain import batch_rows
    from pipeline.decode.rows import Row, record_batch, record_batches
    from pipeline.decode.vectorised import Wanted, decode_frames

    read = Written()

    def decode(data: bytes) -> None:
        view = memoryview(data)
        others: list[Row] = []
        while view:
            frames, _ = read_frames(view[:CHUNK_BYTES])
            read.records += int(frames.field("records_count").sum())
            read.bytes += frames.end
            chunk = view[: frames.end]
            if is_plain:
                batches = zip(frames.positions, range(len(frames)), strict=True)
                rows = [batch_rows(chunk[at:], frames.header(index), 0) for at, index in batches]
                record_batch([row for some in rows for row in some])
            else:
                others.extend(decode_frames(chunk, frames, 0, Wanted()).rows)
            view = view[frames.end :]
        record_batches(others)

    used = []
    for _ in range(rounds + 1):
        read.bytes = read.records = 0
        spent_s = 0.0
        for path in paths:
            data = Path(path).read_bytes()
            began_s = time.process_time()
            decode(data)
            spent_s += time.process_time() - began_s
        used.append(spent_s)
    what = "plain decoder, its oracle" if is_plain else "decoder alone, one process"
    return Used(what, used[1:], read)


def _beside_kafkas_tool(report: Report, decoder: Used, paths: list[str], rounds: int) -> None:
    """Measure Kafka's `DumpLogSegments` with its offsets decoder; discard its output."""
    name = "Kafka's kafka-dump-log --offsets-decoder, as text"
    try:
        command = dump_log()
    except CannotBuild as problem:
        report.rows.append([f"{name} (not there: {problem})", "", "", ""])
        report.absent.append(TO_KAFKA)
        return
    read = Written()
    read.bytes = sum(map(os.path.getsize, paths))
    used = []
    for number in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.Popen(
            [*command, "--offsets-decoder", "--files", ",".join(paths)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert done.stdout is not None
        records = sum(line.startswith(b"|") for line in done.stdout)
        assert done.wait() == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        read.records = records
        if number:
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    tool = Used(name, used, read)
    report.rows.append(tool.row())
    report.figures[TO_KAFKA] = decoder.megabytes_a_second / tool.megabytes_a_second


@contextmanager
def _session() -> "Iterator[SparkSession]":
    from pipeline.session import start

    spark = start("local[2]", {"spark.sql.shuffle.partitions": "4"})
    try:
        yield spark
    finally:
        spark.stop()


def _cpu_s(work: Callable[[], None]) -> float:
    """Measure the CPU seconds of a call. Repeat it if a child process ended meanwhile, such as an idle Python
    worker of Spark, because its CPU time is lost.
    """
    for _ in range(TRIES):
        before, before_s = set(descendants(os.getpid())), tree_cpu_seconds(os.getpid())
        work()
        spent_s = tree_cpu_seconds(os.getpid()) - before_s
        if before <= set(descendants(os.getpid())):
            return spent_s
    raise AssertionError("processes end in each round: their CPU time is not known")


def _through_spark(
    report: Report, spark: "SparkSession", place: str, logs: list[tuple[str, Written]], rounds: int
) -> dict[str, Used]:
    """Add a row for each workload. Return the measurements of the large log."""
    import pyarrow as pa
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.types import from_arrow_schema

    from pipeline.commit_files import COLUMNS
    from pipeline.decode.rows import SCHEMA
    from pipeline.gold.commit_history import PARTITION_OF_GROUP
    from pipeline.gold.latest_offsets import LATEST_OFFSETS
    from pipeline.ingest import ingest
    from pipeline.silver.transform import commits
    from pipeline.source import FORMAT, register
    from pipeline.warehouse import Warehouse

    register(spark)
    tables = os.path.join(place, "tables")

    def read(log: str) -> "DataFrame":
        columns = from_arrow_schema(pa.schema([SCHEMA.field(name) for name in ("kind", *COLUMNS)]))
        return spark.read.format(FORMAT).option("tasks", "2").schema(columns).load(log)

    def rows(log: str) -> "Callable[[], None]":
        frame = read(log)
        return lambda: frame.write.format("noop").mode("overwrite").save()

    def parquet(log: str) -> "Callable[[], None]":
        frame = commits(read(log), 1)
        return lambda: frame.write.mode("overwrite").parquet(tables)

    def warehouse(log: str) -> Warehouse:
        return Warehouse(f"{log}-warehouse")

    def stream(log: str) -> "Callable[[], None]":
        def work() -> None:
            shutil.rmtree(warehouse(log).root, ignore_errors=True)
            ingest(lambda: spark, log, warehouse(log))

        return work

    def latest(log: str) -> "Callable[[], None]":  # the last streamed rows
        silver = warehouse(log).silver(spark, "commits")
        last = silver.groupBy(*PARTITION_OF_GROUP).agg(sf.max("log_offset").alias("log_offset"))
        places = sf.broadcast(last.select("log_partition", "log_offset"))
        frame = LATEST_OFFSETS.shape(silver.join(places, places.columns, "left_semi").where("not tombstone"))
        return lambda: frame.write.format("noop").mode("overwrite").save()

    through: dict[str, Used] = {}
    for what, make in ((NOTHING, rows), (PARQUET, parquet), (STREAMING, stream), (LATEST, latest)):
        used: list[Used] = [Used(what, [], written) for _, written in logs]
        for number in range(rounds + 1):
            for (log, _), so_far in zip(logs, used, strict=True):
                cpu_s = _cpu_s(make(log))
                if number:
                    so_far.rounds.append(cpu_s)
        small, large = used
        through[what] = large
        growth = report.figures[f"{what}: growth"] = large.best / small.best
        report.rows.append(large.row())
        report.rows.append([f"{what}: growth", f"{growth:.1f}", "", ""])
        megabytes, records = large.slope(small)
        # A reader of tables processes records, not the log's bytes.
        report.figures[f"{what}: slope"] = records if what == LATEST else megabytes
        report.rows.append([f"{what}: slope", Absolute(f"{megabytes:.0f}"), Absolute(f"{records:.2f}"), ""])
    peak = max((peak_resident_bytes(pid) for pid in _workers()), default=0)
    report.figures[WORKER] = peak / 1e6
    report.rows.append([f"{WORKER}, MB", f"{peak / 1e6:.0f}", "", ""])
    return through


def _workers() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if _WORKER in command_of(pid)]
