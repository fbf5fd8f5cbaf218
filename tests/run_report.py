"""Progress and cost of a test run.

A pytest plugin, loaded by `-p tests.run_report` (the Makefile does). In place of a dot for each test it
prints one line for each folder that is finished, and every half minute the tests that have been running
longest. At the end it prints a table of tests, seconds and CPU-seconds by folder. Where the environment names
the tier (`GROUPD_TEST_TIER`), the run fails if a folder or the whole tier took more than `tests/cpu_limits.py`
allows, unless other processes had much of the processors' time.

CPU-seconds are the time of the worker process and of its descendants, such as daemons and JVMs, while they
run or once their parents have waited for them. The import and the collection of tests have a row of their own.
"""

import contextlib
import os
import resource
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.neighbours import Neighbours
from tests.cpu_limits import TierLimits, measure_calibration_loop

PROGRESS_INTERVAL_S: Final = 30.0
LONG_TEST_S: Final = 10.0
"""A progress line names running tests from this age on."""
LIVE_FROM_S: Final = 0.5
"""The CPU time of running children is read after phases of this length, and after those in which a child ended."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
SHARED_FROM: Final = 0.25
"""The share of the processors' time that other processes may have before the costs of a run say little."""


def ended_children_cpu_seconds() -> float:
    """CPU time of the children that this process has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def finished_cpu_seconds() -> float:
    """CPU time that this process and the children that it has waited for have used so far."""
    return time.process_time() + ended_children_cpu_seconds()


def live_cpu_seconds() -> float:
    """CPU time of the running descendants of this process, and of the children that they have waited for.

    It moves to `finished_cpu_seconds` when they end. 0.0 on systems without /proc.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            # The name, in parentheses, may contain spaces.
            fields = path.read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(path.parent.name))
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    total, found = 0, list(children[os.getpid()])
    for process in found:  # grows meanwhile
        total += ticks[process]
        found += children[process]
    return total / _TICKS_PER_S


def folder_of(node_id: str) -> str:
    """The folder below `tests/` that a test belongs to; the name of the file for one directly in `tests/`.

    >>> folder_of("tests/group/consumer/test_join.py::test_a"), folder_of("tests/conftest.py::test_b")
    ('group', 'conftest.py')
    """
    parts = node_id.split("::")[0].split("/")
    return parts[1] if len(parts) > 1 else parts[0]


@dataclass
class FolderCost:
    """What the finished tests of a folder took."""

    tests: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class RunReport:
    """The state of the whole run, kept in the process that talks to the terminal."""

    config: pytest.Config
    expected: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    costs: defaultdict[str, FolderCost] = field(default_factory=lambda: defaultdict(FolderCost))
    running: dict[str, float] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    notes_on_cost: list[str] = field(default_factory=list)
    neighbours: Neighbours | None = field(
        default_factory=lambda: Neighbours() if Path("/proc/stat").exists() else None
    )
    collection_cpu_seconds: float = 0.0
    """Of all processes until their first test: imports of the tests, and their collection."""
    calibration_s: list[float] = field(default_factory=lambda: [measure_calibration_loop()])
    """CPU-seconds of the calibration loop, measured at the start, every half minute and at the end."""

    def expect(self, node_ids: Iterable[str]) -> None:
        self.expected = Counter(folder_of(node_id) for node_id in node_ids)

    def add(self, report: pytest.TestReport) -> None:
        """Add one phase (setup, call or teardown) of a test to its folder."""
        cost = self.costs[folder_of(report.nodeid)]
        cost.seconds += report.duration
        cost.cpu_seconds += getattr(report, "cpu_seconds", 0.0)
        self.collection_cpu_seconds += getattr(report, "collection_cpu_seconds", 0.0)
        cost.failed += report.failed
        cost.skipped += report.skipped

    def finish(self, node_id: str) -> None:
        folder = folder_of(node_id)
        self.running.pop(node_id, None)
        self.costs[folder].tests += 1
        self.finished[folder] += 1
        if self.finished[folder] == self.expected[folder]:
            self.print_line(f"{folder:<16} {_outcome(self.costs[folder])}")

    def print_progress(self) -> None:
        """Print one line every half minute until the run ends; runs in a thread of its own."""
        while not self.stopped.wait(PROGRESS_INTERVAL_S):
            self.calibration_s.append(measure_calibration_loop())
            now = time.monotonic()
            oldest = sorted((start, node_id) for node_id, start in list(self.running.items()))[:3]
            long = [
                f"{node_id} for {now - start:.0f} s"
                for start, node_id in oldest
                if now - start >= LONG_TEST_S
            ]
            done, total = sum(self.finished.values()), sum(self.expected.values())
            self.print_line(
                f"{done:,} of {total:,} tests done" + ("; running " + ", ".join(long) if long else "")
            )

    def print_line(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(text)
            reporter.flush()  # it is buffered in a pipe or a file

    def summary(self) -> list[str]:
        """The table by folder, dearest first."""
        rows = sorted(self.costs.items(), key=lambda row: -row[1].cpu_seconds)
        total = self.total()
        collection = FolderCost(cpu_seconds=self.collection_cpu_seconds)
        lines = [f"{'folder':<16} {'tests':>7} {'seconds':>8} {'CPU-seconds':>12}"]
        for name, cost in [*rows, ("(collection)", collection), ("all", total)]:
            lines.append(f"{name:<16} {cost.tests:>7,} {cost.seconds:>8,.0f} {cost.cpu_seconds:>12,.1f}")
        return lines

    def total(self) -> FolderCost:
        """The cost of all folders, and of the collection."""
        sums = (
            sum(getattr(cost, name) for cost in self.costs.values())
            for name in FolderCost.__dataclass_fields__
        )
        total = FolderCost(*sums)
        total.cpu_seconds += self.collection_cpu_seconds
        return total

    def contention(self) -> str | None:
        """Why the CPU-seconds of this run cannot be compared with the limits; None when they can."""
        if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
            return "the run was kept from some of the processors"
        others = self.neighbours.others(self.total().cpu_seconds) if self.neighbours else 0.0
        return f"other processes had {others:.0%} of the processors' time" if others >= SHARED_FROM else None

    def judge(self, limits: TierLimits) -> bool:
        """Compare the costs with the limits of the tier, and note the result. Return whether the run may pass."""
        cpu_seconds = {folder: cost.cpu_seconds for folder, cost in self.costs.items()}
        pace = limits.find_pace(cpu_seconds, [name for name, cost in self.costs.items() if cost.skipped])
        slowdown = statistics.median(self.calibration_s) / limits.calibration_s
        excesses = limits.find_excesses(cpu_seconds, self.total().cpu_seconds, pace, slowdown)
        contention = self.contention()
        self.notes_on_cost = [
            f"CPU time by the reference machine's: folders {pace:.2f}, loop {slowdown:.2f}."
        ]
        if contention:
            self.notes_on_cost.append(f"CPU-seconds are not judged, because {contention}.")
        self.notes_on_cost += excesses
        return not excesses or contention is not None


def _outcome(cost: FolderCost) -> str:
    parts = [f"{cost.tests:>6,} tests", f"{cost.cpu_seconds:>7.1f} CPU-s"]
    if cost.failed:
        parts.append(f"{cost.failed} FAILED")
    if cost.skipped:
        parts.append(f"{cost.skipped} skipped")
    return "  ".join(parts)


class WorkerCost:
    """Adds to each report the CPU time since the report before it. Runs in each process that runs tests."""

    def __init__(self) -> None:
        self._live = live_cpu_seconds()
        self._children = ended_children_cpu_seconds()
        self._last = finished_cpu_seconds() + self._live
        self._collection = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Keep the cost of the collection apart: it would count for the folder of the first test."""
        now = finished_cpu_seconds() + self._live
        self._collection, self._last = now - self._last, now

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        children = ended_children_cpu_seconds()
        if report.duration >= LIVE_FROM_S or children != self._children:
            self._live = live_cpu_seconds()  # without the children that have ended
            self._children = children
        now = finished_cpu_seconds() + self._live
        report.cpu_seconds = now - self._last
        report.collection_cpu_seconds, self._collection = self._collection, 0.0
        self._last = now
        return report


class TerminalRun:
    """Collects the reports of all workers and prints. Runs in the process that talks to the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self.run = RunReport(config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.run.expect(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.run.expect(item.nodeid for item in session.items)

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self.run.print_progress, name="test progress", daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.run.running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.run.add(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.run.finish(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print nothing for a test that passed; the folder's line counts it."""
        if report.passed:
            return ("passed" if report.when == "call" else "", "", "")
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.run.stopped.set()
        tier = os.environ.get("GROUPD_TEST_TIER")
        if tier is not None and session.exitstatus == pytest.ExitCode.OK:
            self.run.calibration_s.append(measure_calibration_loop())
            if not self.run.judge(TierLimits.from_file(tier)):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("cost by folder")
        for line in [*self.run.summary(), *self.run.notes_on_cost]:
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Register the parts that this process needs."""
    is_worker = hasattr(config, "workerinput")
    runs_tests = is_worker or not (config.getoption("numprocesses", None) or config.getoption("tx", None))
    if runs_tests:
        config.pluginmanager.register(WorkerCost(), "groupd worker cost")
    if not is_worker:
        config.pluginmanager.register(TerminalRun(config), "groupd run report")
