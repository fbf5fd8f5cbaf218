"""The pipeline on a log as large as a busy cluster's: time, CPU and memory of each step.

    make pipeline-scale ARGS="--commits 5000000"
    make pipeline-scale ARGS="--commits 5000000 --workers 2"    on a cluster, beside one process: pipeline_cluster

The log is in the directory for temporary files (TMPDIR), which needs three times its size. The command ingests it,
builds the tables and writes a report, each step in a new process. Then the log grows by a hundredth for another
ingest and build. DuckDB, which shares no code with the pipeline, verifies the tables.
"""

import argparse
import asyncio
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.bounds import Judged, judge, read_bounds, table
from benchmarks.neighbours import Neighbours
from benchmarks.offsets_log import PARTITIONS, Written, write_partition
from benchmarks.pipeline import some
from benchmarks.process_tree import descendants, tree_cpu_seconds
from benchmarks.report import Absolute, Report, write_result
from tests.interop.build import CannotBuild
from tests.kafka_log.artifacts import dump_log

COMMITS: Final = 50_000_000
SMALL: Final = 1_000_000
"""For `make bench`."""
GROUPS: Final = 500
DRIVER_MEMORY: Final = "2g"
"""Spark's heap on a machine with 8 GB."""
MORE: Final = 100
"""The log grows by the inverse of this number."""
_SAMPLE_S: Final = 0.5
INGEST: Final = "ingest"
BUILD: Final = "build"
BUILD_MORE: Final = "build of 1 % more"
AGAIN: Final = "build of 1 % more, to the first"
PEAK: Final = "peak memory of all processes"
FIGURES: Final = (AGAIN, PEAK)
_NAME: Final = "pipeline_scale"
"""The name in bounds.toml."""


class Step(NamedTuple):
    """The resources of one process and its descendants."""

    name: str
    seconds: float
    cpu_s: float
    peak_bytes: int
    """The sum of resident memory of all processes; shared pages count for each of them."""


def resident_bytes(pid: int, *, alone: bool = False) -> int:
    """Return the present resident memory of a process, with its descendants unless `alone`."""
    total = 0
    for each in [pid] if alone else descendants(pid):
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE")


def measured(name: str, command: Sequence[str], *, with_cluster: bool = False) -> Step:
    """Run a command to its end.

    Args:
        name: the name of the step.
        command: the command line.
        with_cluster: whether all descendants of this process work for the command and are measured as well.

    Raises:
        CalledProcessError: the command failed.
    """
    began_s = time.monotonic()
    own = os.getpid()
    before_s = tree_cpu_seconds(own) if with_cluster else 0.0
    itself_bytes = resident_bytes(own, alone=True) if with_cluster else 0
    environment = {**os.environ, "SPARK_DRIVER_MEMORY": DRIVER_MEMORY}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    root = own if with_cluster else process.pid
    cpu_s, peak_bytes, ended = 0.0, 0, threading.Event()

    def sample() -> None:
        nonlocal cpu_s, peak_bytes
        while not ended.wait(_SAMPLE_S):
            cpu_s = max(cpu_s, tree_cpu_seconds(root) - before_s)
            peak_bytes = max(peak_bytes, resident_bytes(root) - itself_bytes)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        if process.wait() != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
    finally:
        ended.set()
        sampler.join()
    return Step(name, time.monotonic() - began_s, cpu_s, peak_bytes)


def write_all(directory: str, later: str, commits: int) -> Written:
    """Write the log and its later growth in two processes."""
    each = commits // PARTITIONS
    write = partial(write_partition, directory, commits=each, groups=GROUPS, beyond=(later, -(-each // MORE)))
    written = Written()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for one in pool.imap_unordered(write, range(PARTITIONS)):
            written.add(one)
    return written


def grow(directory: str, later: str) -> None:
    """Move the withheld segments into place."""
    for path in Path(later).glob("*/*.log"):
        shutil.copy(path, Path(directory) / path.parent.name / path.name)


def check(warehouse: str, commits: int) -> str:
    """Verify the tables with DuckDB.

    Raises:
        AssertionError: a table is wrong.
    """
    import duckdb

    def sql(query: str) -> tuple[int, ...]:
        (found,) = duckdb.connect().execute(query.replace("$", warehouse)).fetchall()
        return tuple(found)

    (rows, groups) = sql("select count(*), count(distinct \"group\") from '$/commits/*/*.parquet'")
    key = 'log_partition, "group", topic, partition'
    assert rows == commits, (rows, commits)
    last = f"""select {key}, arg_max("offset", log_offset) as o, count(*) as n from '$/commits/*/*.parquet'
        group by all"""
    wrong = sql(
        f"""select count(*) from ({last}) a full join '$/latest_offsets/*.parquet' b using ({key})
        where a.o is distinct from b."offset" """
    )
    assert wrong == (0,), wrong
    steps = f"""select {key}, "offset" - lag("offset") over (partition by {key} order by log_offset) as d
        from '$/commits/*/*.parquet' where log_partition < 5"""
    by_group = (
        f"""select "group", sum(d) as d, count_if(d = 0) as u, count(*) as n from ({steps}) group by 1"""
    )
    wrong = sql(
        f"""select count(*) from ({by_group}) a join (select "group", sum(advance) as d,
        sum(unmoved_commits) as u, sum(commits) as n from '$/velocity/*.parquet' where log_partition < 5
        group by 1) b using ("group") where a.d <> b.d or a.u <> b.u or a.n <> b.n"""
    )
    assert wrong == (0,), wrong
    return f"{rows:,} commits of {groups} groups"


def told(step: Step) -> None:
    """Print a progress line about a step."""
    print(f"{step.name}: {step.seconds:.0f} s", file=sys.stderr, flush=True)


def run(directory: str, commits: int) -> tuple[Written, list[Step]]:
    """Create a log in an empty directory and run all steps on it."""
    log, later, warehouse = (os.path.join(directory, name) for name in ("log", "later", "warehouse"))
    written = write_all(log, later, commits)
    steps: list[Step] = []

    def step(name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "pipeline", *arguments, "--warehouse", warehouse]
        steps.append(measured(name, command))
        told(steps[-1])

    step(INGEST, "ingest", "--log-dir", log)
    step(BUILD, "build")
    step("report", "report", "--out", os.path.join(directory, "report.html"))
    check(warehouse, written.commits)
    grow(log, later)
    step("ingest of 1 % more", "ingest", "--log-dir", log)
    step(BUILD_MORE, "build")
    return written, steps


def kafkas_tool(log: str) -> tuple[Step, int]:
    """Measure Kafka's `DumpLogSegments` with its offsets decoder on some segments. Return also their size in bytes.

    Raises:
        CannotBuild: the tool is missing.
    """
    segments = some(sorted(str(path) for path in Path(log).rglob("*.log")))
    files = ",".join(segments)
    step = measured("Kafka's kafka-dump-log, on a part", [*dump_log(), "--offsets-decoder", "--files", files])
    return step, sum(map(os.path.getsize, segments))


def report_of(written: Written, steps: Sequence[Step], tool: tuple[Step, int] | None) -> Report:
    """Return the report of a log: its steps, and the resources of Kafka's tool with the bytes that it read."""
    report = Report(
        f"Pipeline: {written.commits / 1e6:.0f} million commits",
        f"A made-up log of {written.bytes / 1e9:.2f} GB in {PARTITIONS} partitions, of {GROUPS} groups; each step "
        f"is the command in a process of its own, Java's start included, with {DRIVER_MEMORY} of heap for Spark. "
        "Then the log grows by a hundredth. Memory is the most that all processes had resident at one time, looked "
        "at twice a second; what they share is counted for each of them. Counts, last offsets of all groups and "
        "the advance of a tenth of them are what DuckDB finds in the silver files.",
        ["step", "time, s", "CPU, s", "peak memory, MB", "MB of log per core-second"],
    )
    for one in steps:
        speed = written.bytes / 1e6 / one.cpu_s if one.name in (INGEST, BUILD) else None
        report.rows.append(row_of(one, speed))
    if tool is not None:
        report.rows.append(row_of(tool[0], tool[1] / 1e6 / tool[0].cpu_s))
    by_name = {one.name: one for one in steps}
    report.figures[AGAIN] = by_name[BUILD_MORE].cpu_s / by_name[BUILD].cpu_s
    report.rows.append([AGAIN, "", f"{report.figures[AGAIN]:.2f}", "", ""])
    report.figures[PEAK] = max(one.peak_bytes for one in steps) / 1e6
    return report


def row_of(step: Step, speed: float | None) -> list[str]:
    """Return a row of the table."""
    figures = f"{step.seconds:.0f}", f"{step.cpu_s:.0f}", "" if speed is None else f"{speed:.1f}"
    seconds, cpu_s, megabytes = map(Absolute, figures)
    return [step.name, seconds, cpu_s, f"{step.peak_bytes / 1e6:.0f}", megabytes]


async def measure(commits: int = COMMITS) -> Report:
    """`commits` is the number of commits in the log."""
    return await asyncio.to_thread(_measure, commits)


def _measure(commits: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        written, steps = run(directory, commits)
        try:
            tool = kafkas_tool(os.path.join(directory, "log"))
        except CannotBuild:
            tool = None
        return report_of(written, steps, tool)


def main() -> None:
    """Entry point of `make pipeline-scale`: write RESULTS.md; return 1 if a figure is out of bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--workers", type=int, default=0, help="of a cluster of Spark's own, of a core each")
    arguments = parser.parse_args()
    bounds = read_bounds({_NAME: FIGURES}, only=_NAME)
    neighbours = Neighbours()
    judged: list[Judged] = []
    if arguments.workers:
        from benchmarks.pipeline_cluster import measure as measure_on_cluster

        report = asyncio.run(measure_on_cluster(arguments.commits, arguments.workers))
    else:
        report = asyncio.run(measure(arguments.commits))
        judged = judge(bounds, report.figures, report.absent, neighbours.stolen)
    print(report.markdown(neighbours.stolen))
    write_result(report, neighbours, judged)
    print(*table(judged), sep="\n")
    sys.exit(any(one.verdict.is_failure for one in judged))


if __name__ == "__main__":
    main()
