"""How fast is a log compacted, and what do commits notice of it?"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

from benchmarks.commit import commit_frames
from benchmarks.comparison import QUANTILES
from benchmarks.flood import Load, Measured, Side, in_turn
from benchmarks.groups import group_names, speaking
from benchmarks.history import open_logs, write_history
from benchmarks.member import TOPIC
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report, spread
from storage.compaction.compaction import Compaction, CompactionResult, find_log_to_clean
from storage.compaction.compaction_filter import CompactionTerms

COMMITS: Final = 1_000_000
ROUNDS: Final = 3
SECONDS: Final = 5.0
SEGMENT_BYTES: Final = 200_000
FLOOD: Final = Load(50, 1)
OPTIONS: Final = (
    *("-o", "group.initial.rebalance.delay.ms=0", "--topic", f"{TOPIC}:6"),
    *("-o", f"offsets.topic.segment.bytes={SEGMENT_BYTES}", "-o", "log.cleaner.backoff.ms=100"),
)
RATE: Final = "records a CPU-second"
SIZE: Final = "bytes a commit after"
FIGURES: Final = (RATE, SIZE, "p50, compacting to at rest", "p99, compacting to at rest")
SETTINGS: Final = {"at rest": "log.cleaner.enable=false", "compacting": "log.cleaner.enable=true"}


def _compact(data_dir: str) -> tuple[float, list[CompactionResult]]:
    """Compacts every log of a history; CPU seconds, and what each pass came to."""
    began, done = process_time(), []
    for log in open_logs(data_dir):
        todo = find_log_to_clean(log, 0, log.log_end_offset, 0)
        compaction = Compaction(log, todo, CompactionTerms(0, 0, lambda _: False))
        for step in compaction.iterate_steps():
            if step is not None:
                step()
        assert compaction.result is not None
        done.append(compaction.result)
    return process_time() - began, done


async def _flooded(
    serve: Callable[[str], AbstractContextManager[Server]], option: str, seconds: float
) -> Measured:
    with serve(option) as server:
        frames = await commit_frames(server, group_names(FLOOD.connections))
        side = Side(server, await speaking(server, frames, 1))
        return (await in_turn({option: side}, [FLOOD], 1, seconds))[option, FLOOD][0]


async def measure(commits: int = COMMITS, rounds: int = ROUNDS, seconds: float = SECONDS) -> Report:
    """A history compacted in one process; then commits to a daemon that has the same history to compact."""
    report = Report(
        "Compaction",
        f"{commits:,} commits to 2,000 partitions of 200 groups, one in a batch, in segments of {SEGMENT_BYTES:,} "
        "bytes. All logs compacted in one process, nothing held back, CPU time, opening and syncs included. Then a "
        f"daemon on that history, {FLOOD} commits in flight (`log.flush` as it is by default) for {seconds:g} s, "
        f"{rounds} rounds, at rest and while it compacts.",
        ["what", "median (lowest to highest)"],
    )
    rates, sizes = [], []
    floods: dict[str, list[Measured]] = {name: [] for name in SETTINGS}
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        history = str(Path(directory) / "history")
        written_bytes = write_history(history, commits, 1, SEGMENT_BYTES)

        def serve(option: str) -> AbstractContextManager[Server]:
            copy = Path(directory) / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(history, copy)
            return groupd(*OPTIONS, "-o", option, data_dir=str(copy))

        for _ in range(rounds):
            for name, option in SETTINGS.items():
                floods[name].append(await _flooded(serve, option, seconds))
            copy = str(Path(directory) / "to-compact")
            shutil.copytree(history, copy)
            cpu_seconds, done = _compact(copy)
            shutil.rmtree(copy)
            rates.append(sum(each.records_before for each in done) / cpu_seconds)
            sizes.append(written_bytes - sum(each.bytes_before - each.bytes_after for each in done))
    report.figures = {RATE: median(rates), SIZE: sizes[0] / commits}
    report.rows.append(["records compacted per CPU-second", Absolute(spread(rates, "k"))])
    report.rows.append(["bytes a commit before", f"{written_bytes / commits:.0f}"])
    report.rows.append(["bytes a commit after, active segments included", f"{sizes[0] / commits:.1f}"])
    for name, runs in floods.items():
        for quantile, label in QUANTILES.items():
            waits = spread([run.waited_ms(quantile) for run in runs], ".2f")
            report.rows.append([f"commit {label}, ms, {name}", Absolute(waits)])
        per_second = spread([run.per_second for run in runs], "k")
        report.rows.append([f"commits per second, {name}", Absolute(per_second)])
    for quantile, label in QUANTILES.items():
        waited = ([run.waited_ms(quantile) for run in floods[name]] for name in ("compacting", "at rest"))
        ratios = [busy / at_rest for busy, at_rest in zip(*waited, strict=True)]
        figure = f"{label}, compacting to at rest"
        report.rows.append([f"commit {figure}", spread(ratios, ".2f")])
        report.figures[figure] = median(ratios)
    return report
