"""How long from the start of the process to the ready line, and how much memory at rest?"""

import asyncio
import subprocess
import tempfile
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.process import STOP_SECONDS, Server, environment, groupd_command, kafka_address
from benchmarks.report import Absolute, Report, spread

RUNS: Final = 15
READY: Final = "start to ready line"
AT_REST: Final = "resident at rest"
FIGURES: Final = (READY, AT_REST)


class Started(NamedTuple):
    """One start: seconds to the ready line, CPU seconds and resident megabytes by then."""

    wall_seconds: float
    cpu_seconds: float
    resident_mb: float


def start_once() -> Started:
    """Start it with an empty data directory, and stop it."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        command = groupd_command(directory)
        began = perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = perf_counter() - began
        if not line:
            raise RuntimeError(f"it did not start:\n{process.communicate()[1]}")
        server = Server(process.pid, *kafka_address(line))
        started = Started(seconds, server.cpu_seconds(), server.resident_bytes() / 1e6)
        process.terminate()
        _, log = process.communicate(timeout=STOP_SECONDS)
        assert process.returncode == 0, log
        return started


async def measure(runs: int = RUNS) -> Report:
    """Start it `runs` times; the first start, which may compile bytecode, is not counted."""
    await asyncio.to_thread(start_once)
    started = [await asyncio.to_thread(start_once) for _ in range(runs)]
    report = Report(
        "Start to ready, and memory at rest",
        f"{runs} starts of `groupd serve` with an empty data directory and the default configuration; one start "
        "before them is not counted. Memory is the resident set when the ready line is out.",
        ["what", "median (lowest to highest)"],
    )
    wall, cpu, memory = zip(*started, strict=True)
    report.rows.append([f"{READY}, s", Absolute(spread(wall, ".3f"))])
    report.rows.append(["CPU until then, s", Absolute(spread(cpu, ".3f"))])
    report.rows.append([f"{AT_REST}, MB", spread(memory, ".1f")])
    report.figures = {READY: median(wall), AT_REST: median(memory)}
    return report
