"""A run of pytest of its own, for tests of how the tests are run."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tests

ROOT: Final = Path(tests.__file__).parents[1]
TIMEOUT_S: Final = 400
_OUTCOME: Final = re.compile(r"^(PASSED|FAILED|ERROR) \S+?::(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class SmallRun:
    """The result of the run."""

    outcomes: dict[str, list[str]]
    """Of each test by name, in capitals: FAILED or PASSED of itself, ERROR of what is before or after it."""
    printed: str


def small_run(directory: Path, source: str, *options: str) -> SmallRun:
    """Runs the tests of a file in their order, with the plugins for limits and shared fixtures and nothing else
    of this repository."""
    (directory / "test_small.py").write_text(source)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-rA",
                "--tb=short",
                "-W",
                "error",
                *("-p", "tests.hang_limit", "-p", "tests.shared_fixtures"),
            ),
            *("-p", "no:randomly", "-p", "no:cacheprovider", *options, "test_small.py"),
        ],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    outcomes: dict[str, list[str]] = {}
    for outcome, name in _OUTCOME.findall(done.stdout):
        outcomes.setdefault(name, []).append(outcome)
    return SmallRun(outcomes, done.stdout)
