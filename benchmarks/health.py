"""How much processor time does the image's health check take?"""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.process import environment, groupd
from benchmarks.report import Absolute, Report, spread

RUNS: Final = 20
FIGURES: Final = ("groupd-health",)
CHECK: Final = "`groupd-health HOST:PORT`"
NOTHING: Final = "`bash -c :`, which does nothing"
SCRIPT: Final = Path(__file__).parents[1] / "docker" / "groupd-health"


def _cpu_ms(command: Sequence[str]) -> float:
    """User and system time of one run, which must succeed, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


async def measure(runs: int = RUNS) -> Report:
    """Each command `runs` times, in turn; one run of each before them is not counted."""
    with groupd() as server:
        address = f"{server.host}:{server.port}"
        commands = {
            CHECK: [str(SCRIPT), address],
            NOTHING: ["bash", "-c", ":"],
            "`python -I -S -c pass`, which does nothing": [sys.executable, "-I", "-S", "-c", "pass"],
            "`groupd ping HOST:PORT`": [sys.executable, "-m", "coordinator", "ping", "--quiet", address],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for run in range(runs + 1):
            for name, command in commands.items():
                milliseconds = await asyncio.to_thread(_cpu_ms, command)
                if run:
                    taken[name].append(milliseconds)
    report = Report(
        "A health check",
        f"{runs} runs of each command, in turn; user and system time of the process. The image is checked every "
        "two seconds. A check in Python cannot take less than Python's own start.",
        ["command", "CPU ms, median (lowest to highest)", "to `bash -c :`"],
    )
    for name, values in taken.items():
        ratios = [mine / its for mine, its in zip(values, taken[NOTHING], strict=True)]
        report.rows.append(
            [name, Absolute(spread(values, ".1f")), spread(ratios, ".1f") if name != NOTHING else ""]
        )
    report.figures = {"groupd-health": median(taken[CHECK]) / median(taken[NOTHING])}
    return report
