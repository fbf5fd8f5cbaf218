"""The tests to run before a commit: `make quick`, or `python -m tests.quick --base main`.

Chooses the test files that changed, then test files that import a changed module, nearest first, then a
seeded sample from the folders of the cores, the codecs and the storage. Runs them until the time is up and
prints how many tests it left out. A green quick run does not replace `make test`.
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from time import monotonic
from typing import Final

import grimp
import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("coordinator", "protocol", "storage", "pipeline", "groupd", "release", "tests")
SAMPLED: Final = ("group", "transactions", "protocol", "storage", "runtime", "network", "topics", "scenarios")
SAMPLE_FILES: Final = 12
SLOW: Final = (
    "interop",
    "ecosystem",
    "pipeline",
    "readme",
    "docker",
    "soak",
    "kafka_log",
    "crash",
    "hostile",
    "oracle",
)
"""Folders with JVMs, browsers or many processes: their tests run only if their own files changed."""
RULES: Final = "tests/tooling/test_tidy.py"
MAX_DISTANCE: Final = 3
"""How many imports may lie between a changed module and a test."""


def changed_files(base: str) -> list[str]:
    """Paths from the root that differ from `base`, in commits, in the work tree, or not added yet."""
    differing = _git("diff", "--name-only", base)
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return sorted({path for path in differing + untracked if (ROOT / path).exists()})


def _git(*arguments: str) -> list[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def module_name(path: str) -> str | None:
    """`coordinator.core.time_budget` for `coordinator/core/time_budget.py`; None for other files."""
    path = path.removeprefix("distribution/")
    if not path.endswith(".py") or path.split("/")[0] not in PACKAGES:
        return None
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_test_file(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def dependent_tests(changed: Iterable[str]) -> list[str]:
    """Return the test files that import a changed file, directly or through other modules, nearest first."""
    graph = grimp.build_graph(*PACKAGES)
    frontier = {name for path in changed if (name := module_name(path)) is not None and name in graph.modules}
    seen, found = set(frontier), []
    for _ in range(MAX_DISTANCE):
        frontier = {by for name in frontier for by in graph.find_modules_that_directly_import(name)} - seen
        seen |= frontier
        paths = sorted(name.replace(".", "/") + ".py" for name in frontier)
        found += [path for path in paths if is_test_file(path) and path.split("/")[1] not in SLOW]
    return found


def sample(seed: int) -> list[str]:
    files = sorted(
        path.relative_to(ROOT).as_posix()
        for folder in SAMPLED
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )
    return random.Random(seed).sample(files, SAMPLE_FILES)


def chosen_tests(base: str, seed: int) -> list[str]:
    changed = changed_files(base)
    own = [path for path in changed if is_test_file(path)]
    return list(dict.fromkeys([RULES, *own, *dependent_tests(changed), *sample(seed)]))


class TimeLimit:
    """Lets no test start after the limit. A pytest plugin, in each worker process."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        self._not_run = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        if monotonic() < self._end:
            return None
        self._not_run += 1
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["not_run"] = self._not_run
        return (yield)


class NotRun:
    """Sums up, in the main process, the tests that the workers left out."""

    def __init__(self) -> None:
        self.count = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.count += getattr(node, "workeroutput", {}).get("not_run", 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-limit-s", type=float, default=0.0, help="start no test after this many seconds")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(TimeLimit(config.getoption("--time-limit-s")), "groupd time limit")
    else:
        config.pluginmanager.register(NotRun(), "groupd not run")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.pluginmanager.get_plugin("groupd not run").count  # type: ignore[union-attr]
    if count:
        terminalreporter.write_line(f"{count} tests were not run for want of time; `make test` runs them")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--base", default="HEAD", help="choose by what differs from this revision (default: HEAD)"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the sample (default: a new one, printed)")
    parser.add_argument(
        "--seconds", type=float, default=35.0, help="start no test after this time (default: 35)"
    )
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10_000) if given.seed is None else given.seed
    tests = chosen_tests(given.base, seed)
    print(f"{len(tests)} test files; repeat with --base {given.base} --seed {seed}")
    command = [
        "-q",
        "-p",
        "tests.quick",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:randomly",
        "-m",
        "not extended",
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *command, f"--time-limit-s={given.seconds}", *tests],
        cwd=ROOT,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
