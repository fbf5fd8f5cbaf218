"""`python -m tests.hostile.watched_loop serve …`: the daemon, which writes down how long it has held its loop.

An iteration of the loop is what happens between two looks at the sockets: as long as it takes nobody is answered.
Each one that takes `LEAST_S` of processor time becomes a line of the file that HELD_LOOP_FILE names: seconds of the
processor, and of the clock. What other programs do to the machine lengthens the second, not the first.

The loop is that of the standard library, whose looks at the sockets can be seen; handlers are the same on either.
"""

import os
import selectors
import sys
import time
from pathlib import Path
from typing import Any, Final

from coordinator.cli.main import main as groupd

FILE: Final = "HELD_LOOP_FILE"
LEAST_S: Final = 0.01


def watch(path: Path) -> None:
    """From now on iterations are timed."""
    file = path.open("a", buffering=1)
    look = selectors.DefaultSelector.select
    began = (time.thread_time(), time.monotonic())

    def timed(self: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        nonlocal began
        held_s = time.thread_time() - began[0]
        if held_s >= LEAST_S:
            file.write(f"{held_s:.4f} {time.monotonic() - began[1]:.4f}\n")
        found = look(self, timeout)
        began = (time.thread_time(), time.monotonic())
        return found

    selectors.DefaultSelector.select = timed  # type: ignore[method-assign]


def main() -> None:
    """Run the command of groupd."""
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    watch(Path(os.environ[FILE]))
    groupd()


if __name__ == "__main__":
    main()
