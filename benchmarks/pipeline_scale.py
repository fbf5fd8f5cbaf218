"""The pipeline on a log as large as a busy cluster's: time, CPU and memory of each step.

    python -m benchmarks.pipeline_scale DIRECTORY --commits 50000000

The log is made, ingested, built and reported on by the command, each step in a process of its own; then grows by a
hundredth, and that is ingested and built. What the tables say is counted by DuckDB, which shares no code with them.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.offsets_log import PARTITIONS, Written, write_partition
from benchmarks.process_tree import descendants, tree_cpu_seconds

COMMITS: Final = 50_000_000
GROUPS: Final = 500
DRIVER_MEMORY: Final = "2g"
"""Of Spark's heap, on a machine of 8 GB."""
MORE: Final = 100
"""The log grows by one commit in so many."""
_SAMPLE_S: Final = 0.5
_KINDS: Final = {"java": "JVM", "pyspark.daemon": "Python workers"}


class Step(NamedTuple):
    """What one process and all below it used."""

    name: str
    seconds: float
    cpu_s: float
    peak_bytes: int
    """Resident, all processes together; what they share is counted for each of them."""


def resident_bytes(pid: int) -> int:
    """Of a process and everything below it, now."""
    total = 0
    for each in descendants(pid):
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE")


def measured(name: str, command: Sequence[str], output: str | None = None) -> Step:
    """Runs a command to its end. Raises CalledProcessError."""
    began_s = time.monotonic()
    environment = {**os.environ, "SPARK_DRIVER_MEMORY": DRIVER_MEMORY}
    out = subprocess.DEVNULL if output is None else None
    process = subprocess.Popen(command, env=environment, stdout=out)
    cpu_s, peak_bytes, ended = 0.0, 0, threading.Event()

    def sample() -> None:
        nonlocal cpu_s, peak_bytes
        while not ended.wait(_SAMPLE_S):
            cpu_s = max(cpu_s, tree_cpu_seconds(process.pid))
            peak_bytes = max(peak_bytes, resident_bytes(process.pid))

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
    """The log, and what it will grow by, in two processes."""
    each = commits // PARTITIONS
    write = partial(write_partition, directory, commits=each, groups=GROUPS, beyond=(later, -(-each // MORE)))
    written = Written()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for one in pool.imap_unordered(write, range(PARTITIONS)):
            written.add(one)
    return written


def grow(directory: str, later: str) -> None:
    """Puts the segments that were kept back into their places."""
    for path in Path(later).glob("*/*.log"):
        shutil.copy(path, Path(directory) / path.parent.name / path.name)


def check(warehouse: str, commits: int) -> str:
    """Counts with DuckDB what the tables should say; raises AssertionError."""
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


def run(directory: str, commits: int) -> list[Step]:
    """All steps. Tells of each on standard error."""
    log, later, warehouse = (os.path.join(directory, name) for name in ("log", "later", "warehouse"))
    note = Path(directory) / "written.json"
    steps: list[Step] = []

    def step(name: str, *command: str) -> None:
        steps.append(measured(name, [sys.executable, "-m", "pipeline", *command]))
        one = steps[-1]
        print(
            f"{name}: {one.seconds:.1f} s, {one.cpu_s:.1f} CPU s, {one.peak_bytes / 1e6:.0f} MB",
            file=sys.stderr,
            flush=True,
        )

    if not note.exists():
        began_s = time.monotonic()
        written = write_all(log, later, commits)
        note.write_text(json.dumps(vars(written)))
        print(f"written in {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    said = json.loads(note.read_text())
    print(f"{said['commits']:,} commits, {said['bytes'] / 1e9:.2f} GB", file=sys.stderr, flush=True)
    to = ("--warehouse", warehouse)
    step("ingest", "ingest", "--log-dir", log, *to)
    step("build", "build", *to)
    step("report", "report", *to, "--out", os.path.join(directory, "report.html"))
    print(check(warehouse, said["commits"]), file=sys.stderr, flush=True)
    grow(log, later)
    step("ingest of 1 % more", "ingest", "--log-dir", log, *to)
    step("build of 1 % more", "build", *to)
    return steps


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--commits", type=int, default=COMMITS)
    given = parser.parse_args()
    os.makedirs(given.directory, exist_ok=True)
    run(os.path.abspath(given.directory), given.commits)


if __name__ == "__main__":
    main()
