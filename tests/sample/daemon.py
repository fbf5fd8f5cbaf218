"""A groupd of the sample's own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STOP_S: Final = 20.0
READY: Final = "groupd ready kafka="


@contextmanager
def groupd(data_directory: str, topics: dict[str, int]) -> Iterator[str]:
    """Runs groupd on a free port with these topics (and their numbers of partitions); gives HOST:PORT.

    Raises RuntimeError when it does not start.
    """
    command = [
        *(sys.executable, "-m", "coordinator", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        *("--data-dir", data_directory, "--log-level", "error", "-o", "group.initial.rebalance.delay.ms=300"),
        *(word for topic, n in topics.items() for word in ("--topic", f"{topic}:{n}")),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise RuntimeError("groupd did not start")
            yield line.removeprefix(READY).split()[0]
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
