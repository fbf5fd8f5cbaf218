"""How long from the start of the process to the ready line, and how much memory at rest?"""

import asyncio
import subprocess
import tempfile
from time import perf_counter
from typing import Final

from benchmarks.process import STOP_SECONDS, Server, groupd_command, kafka_address
from benchmarks.report import Report, spread

RUNS: Final = 15
TARGET_SECONDS: Final = 0.35
TARGET_IDLE_MB: Final = 60


def _start_once() -> tuple[float, float]:
    """Seconds to the ready line, and resident megabytes just after it, with an empty data directory."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        command = groupd_command(directory)
        began = perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = perf_counter() - began
        memory = Server(process.pid, *kafka_address(line)).resident_bytes() / 1e6
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0
        return seconds, memory


async def measure(runs: int = RUNS) -> Report:
    """Start it `runs` times; the first start, which may compile bytecode, is not counted."""
    await asyncio.to_thread(_start_once)
    started = [await asyncio.to_thread(_start_once) for _ in range(runs)]
    report = Report(
        "Start to ready, and memory at rest",
        f"{runs} starts of `groupd serve` with an empty data directory and the default configuration; one start "
        "before them is not counted. Memory is the resident set when the ready line is out.",
        ["what", "median (lowest to highest)", "target"],
    )
    report.rows.append(
        ["start to ready line, s", spread([s for s, _ in started], ".3f"), f"{TARGET_SECONDS}"]
    )
    report.rows.append(["resident at rest, MB", spread([m for _, m in started], ".1f"), f"{TARGET_IDLE_MB}"])
    return report
