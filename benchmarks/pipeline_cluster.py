"""The pipeline on a standalone Spark cluster on this machine, compared with a single process.

    make pipeline-scale ARGS="--commits 5000000 --workers 2"

The same commands ingest and build one log twice; only `--master` differs. DuckDB checks that the tables are equal.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from benchmarks.offsets_log import PARTITIONS, Written
from benchmarks.pipeline_scale import DRIVER_MEMORY, GROUPS, Step, check, measured, row_of, told, write_all
from benchmarks.report import Report
from pipeline.build import GOLD
from pipeline.silver.schemas import INGEST_BATCHES, INGEST_FINDINGS, SILVER
from tests.pipeline.cluster import LocalCluster

WORKER_MEMORY: Final = "1200m"
"""For an executor of 1 GB, Spark's default."""
_WHEN: Final = {
    "build_info": "built_ts",
    INGEST_FINDINGS.name: "found_ts",
    INGEST_BATCHES.name: "ingested_ts",
}
"""The columns with processing times."""


def differing(one: str, other: str) -> list[str]:
    """Return the tables with different rows in two warehouses."""
    import duckdb

    found = []
    for name in (*SILVER, *GOLD):
        left_out = f"exclude ({_WHEN[name]})" if name in _WHEN else ""
        rows = [f"select * {left_out} from '{place}/{name}/**/*.parquet'" for place in (one, other)]
        more = " union all ".join(f"({a} except all {b})" for a, b in (rows, reversed(rows)))
        (count,) = duckdb.connect().execute(f"select count(*) from ({more})").fetchall()[0]
        if count:
            found.append(name)
    return found


def run(directory: str, commits: int, workers: int) -> tuple[Written, list[Step]]:
    """Create a log in an empty directory and process it in both ways.

    Raises:
        AssertionError: the tables differ.
    """
    log, later, local, remote = (
        os.path.join(directory, name) for name in ("log", "later", "local", "cluster")
    )
    written = write_all(log, later, commits)
    steps: list[Step] = []

    def both(where: str, warehouse: str, *master: str) -> None:
        for name, *more in (("ingest", "--log-dir", log), ("build",)):
            command = [sys.executable, "-m", "pipeline", name, *more, "--warehouse", warehouse, *master]
            steps.append(measured(f"{name} {where}", command, with_cluster=bool(master)))
            told(steps[-1])

    both("in one process", local)
    check(local, written.commits)
    with LocalCluster(workers=workers, memory=WORKER_MEMORY) as cluster:
        both("on the cluster", remote, "--master", cluster.url)
    different = differing(local, remote)
    assert not different, different
    return written, steps


def report_of(written: Written, steps: Sequence[Step], workers: int) -> Report:
    """Return the table of the report."""
    report = Report(
        f"Pipeline: {written.commits / 1e6:.0f} million commits on a cluster",
        f"A made-up log of {written.bytes / 1e6:.0f} MB in {PARTITIONS} partitions, of {GROUPS} groups, ingested "
        f"and built by the command in one process with {DRIVER_MEMORY} of heap, and by the same with a standalone "
        f"master and {workers} workers, each of one core and with an executor of 1 GB, all on this machine. CPU and"
        " memory are of all processes, those of the cluster too. The silver and gold tables of both are the same, "
        "row by row, as DuckDB compares them, but for when they were made.",
        ["step", "time, s", "CPU, s", "peak memory, MB", "MB of log per core-second"],
    )
    report.rows += [row_of(one, written.bytes / 1e6 / one.cpu_s) for one in steps]
    return report


async def measure(commits: int, workers: int) -> Report:
    """`commits` is the number of commits in the log, `workers` the number of workers in the cluster."""
    return await asyncio.to_thread(_measure, commits, workers)


def _measure(commits: int, workers: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        written, steps = run(directory, commits, workers)
        return report_of(written, steps, workers)
