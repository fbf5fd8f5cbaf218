"""`python -m tests.hostile.holds [NAME]...`: how long the largest request of each API holds the loop.

Prints a line for each of `largest.py`, or for those whose name begins as one of the arguments: the longest hold in
milliseconds of the processor and of the clock, how long the answer took, and how large request and answer were.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.crash.process import Process
from tests.hostile.largest import LARGEST
from tests.hostile.shapes import KNOWN, KNOWN_PARTITIONS
from tests.hostile.siege.attacker import Attacker, frame
from tests.hostile.siege.siege import OPTIONS
from tests.hostile.watched_loop import FILE

MODULE: Final = "tests.hostile.watched_loop"


class Hold(NamedTuple):
    """The longest of some time, in seconds of the processor and of the clock."""

    cpu_s: float
    wall_s: float


class Holds:
    """What a daemon with a watched loop has written down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def longest(self) -> Hold:
        """Since it was asked last."""
        lines = self._path.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        holds = [Hold(*map(float, line.split())) for line in new]
        return max(holds, default=Hold(0, 0))


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[tuple[Process, Holds]]:
    """A daemon with a watched loop, and the topic that `largest.py` knows."""
    path = directory / "holds"
    path.touch()
    options = (*OPTIONS, "--topic", f"{KNOWN}:{KNOWN_PARTITIONS}")
    daemon = await Process.start(
        directory / "data", directory / "log", options, module=MODULE, variables={FILE: str(path)}
    )
    try:
        await daemon.ready()
        yield daemon, Holds(path)
    finally:
        await daemon.kill()


async def measure(chosen: list[str]) -> None:
    """Plays requests one after the other, and prints what each has cost."""
    with tempfile.TemporaryDirectory() as directory:
        async with watched(Path(directory)) as (daemon, holds):
            attacker = Attacker(daemon.port)
            print(f"{'request':45} {'hold ms':>8} {'clock':>6} {'answer s':>8} {'bytes':>9} {'answer':>9}")
            for name, largest in LARGEST.items():
                if chosen and not name.startswith(tuple(chosen)):
                    continue
                data = frame(largest.make(), largest.version)
                hostile = await attacker.connect()
                await asyncio.sleep(0.2)
                holds.longest()
                started_s = time.monotonic()
                await hostile.send(data)
                answered = await hostile.answer()
                took_s = time.monotonic() - started_s
                await hostile.close()
                await asyncio.sleep(0.2)
                cpu_s, wall_s = holds.longest()
                told = "closed" if answered is None else str(len(answered))
                print(
                    f"{name:45} {cpu_s * 1000:8.0f} {wall_s * 1000:6.0f} {took_s:8.2f} {len(data):9} {told:>9}",
                    flush=True,
                )
            await attacker.close()


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1:]))
