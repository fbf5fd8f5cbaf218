"""Run pytest on one processor, beside four busy loops and with a wall clock that steps.

`python -m tests.stress ARGUMENTS` passes its arguments on to pytest and ends with the exit code of pytest.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BUSY_LOOPS: Final = 4
CLOCK: Final = Path(__file__).with_name("stepping_clock")


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep the processor of this process busy with `count` other processes."""
    loops = [subprocess.Popen([sys.executable, "-Sc", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main(arguments: list[str]) -> int:
    """Run pytest with some arguments, and return its exit code."""
    if hasattr(os, "sched_setaffinity"):  # Linux
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    path = os.pathsep.join(filter(None, (str(CLOCK), os.environ.get("PYTHONPATH"))))
    with busy_loops(BUSY_LOOPS):
        tests = [sys.executable, "-X", "dev", "-m", "pytest", *arguments]
        return subprocess.run(tests, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
