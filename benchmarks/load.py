"""How fast does the daemon load groups, and how long does a start take after a long history?"""

import asyncio
import gc
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

from benchmarks.history import KEYS, OFFSETS_PARTITIONS, open_logs, write_history
from benchmarks.process import environment, groupd_command
from benchmarks.report import Absolute, Report, spread
from coordinator.config.properties import Config
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import NO_TOPICS
from coordinator.runtime.partition_loader import PartitionLoad
from storage.files import OsFiles

MILLION: Final = 1_000_000
RATE: Final = "records a CPU-second, 1 M, 1 in a batch"
GROWTH: Final = "records a CPU-second, 5 M to 1 M"
RESTART: Final = "start after a clean stop, 5 M"
FIGURES: Final = (RATE, GROWTH, RESTART)
STARTS: Final = 5
STOP_SECONDS: Final = 120


def _load_all(data_dir: str) -> float:
    """Load all logs of a data directory. Return the CPU seconds without opening and closing the logs."""
    files = OsFiles()
    seconds = 0.0
    shards = []
    gc.disable()  # as in a daemon that starts
    for log in open_logs(data_dir):
        config = Config()
        shard = GroupShard(config.view(GroupConfig), NO_TOPICS, config.view(ConsumerGroupConfig))
        began = process_time()
        for _ in PartitionLoad(log, shard, files, GroupRecordCodec()).run_steps():
            pass
        seconds += process_time() - began
        shards.append(shard)
    gc.enable()
    assert sum(shard.durable_keys for shard in shards) == KEYS
    return seconds


def _start_and_stop(directory: str, *options: str) -> float:
    """Start and stop a daemon without requests. Return the seconds until it was ready."""
    with (Path(directory) / "log").open("ab") as log:
        began = perf_counter()
        process = subprocess.Popen(
            groupd_command(directory, *options),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = perf_counter() - began
        process.terminate()
        process.communicate(timeout=STOP_SECONDS)
    if not line or process.returncode:
        raise RuntimeError(f"it did not start and stop:\n{(Path(directory) / 'log').read_text()}")
    return seconds


def _measure(report: Report, commits: int, commits_in_a_batch: int, rounds: int) -> tuple[float, float]:
    """Add a row. Return records per CPU second, and the seconds of a start after a clean shutdown."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        data_dir = str(Path(directory) / "data")
        size_bytes = write_history(data_dir, commits, commits_in_a_batch)
        rates = [commits / _load_all(data_dir) for _ in range(rounds)]
        whole = _start_and_stop(directory)
        starts = [_start_and_stop(directory) for _ in range(STARTS)]
    report.rows.append(
        [
            f"{commits / MILLION:g} M",
            str(commits_in_a_batch),
            f"{size_bytes / commits:.0f}",
            Absolute(spread(rates, "k")),
            Absolute(f"{whole:.2f}"),
            Absolute(spread(starts, ".2f")),
        ]
    )
    print(f"load {commits}: {median(rates):.0f} records/s, start {median(starts):.2f} s", flush=True)
    return median(rates), median(starts)


async def measure(sizes: tuple[int, ...] = (MILLION, 5 * MILLION), rounds: int = 3) -> Report:
    """Measure histories of each size with one and with ten commits per batch."""
    report = Report(
        "Loading",
        f"{KEYS:,} partitions committed over and over by 200 groups, in {OFFSETS_PARTITIONS} partitions of "
        "`__consumer_offsets` whose whole history is kept. Whole logs read in one process, CPU time; then a daemon "
        "started on them, which reads all, stops cleanly, and is started again: seconds from the start of the "
        'process to its ready line. An idle daemon with an empty data directory takes what "Start to ready" says.',
        [
            "commits",
            "in a batch",
            "bytes each",
            "records/CPU-second",
            "first start, s",
            "start after a clean stop, s",
        ],
    )
    measured = {
        (commits, batch): await asyncio.to_thread(_measure, report, commits, batch, rounds)
        for commits in sizes
        for batch in (1, 10)
    }
    (rate, _), (rate_of_most, restart) = measured[sizes[0], 1], measured[sizes[-1], 1]
    report.figures = {RATE: rate, GROWTH: rate_of_most / rate, RESTART: restart}
    return report
