"""A daemon under attack, its neighbour, and a reference daemon without an attack.

Times are compared: the delays of the reference's neighbour are due to the machine, and the attacked one may
have them in addition to `WORST_MS`. The time that a daemon waits for a processor does not count
(neighbour.py).
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.crash.process import Process
from tests.hostile.siege.attacker import Attacker
from tests.hostile.siege.place import PLAIN, Place

WORST_MS: Final = 500
"""The longest time that a neighbour may wait for a response during any attack."""
GROWTH_BYTES: Final = 200 * 1024 * 1024
"""What an attack may take of the daemon's memory while it lasts."""
KEPT_BYTES: Final = 64 * 1024 * 1024
"""The memory that a daemon may keep afterwards, because an allocator does not return all of it."""
OPTIONS: Final = ("--profile", "test", "-o", "offsets.topic.num.partitions=5", "-o", "log.flush=os")
TIMEOUT_S: Final = 60
GIVES_BACK_S: Final = 60
_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Toll:
    """What an attack has cost. `quiet_ms` is the worst answer of the daemon that was not attacked."""

    worst_ms: float
    quiet_ms: float
    grown_bytes: int
    kept_bytes: int

    def is_bearable(self, worst_ms: float = WORST_MS) -> bool:
        """Whether it may cost that much. `worst_ms`: how long the neighbour may wait for an answer."""
        return (
            self.worst_ms < worst_ms + self.quiet_ms
            and self.grown_bytes < GROWTH_BYTES
            and self.kept_bytes < KEPT_BYTES
        )


class NeighbourReport(NamedTuple):
    """The waits of a neighbour since its last report; `neighbour.py` defines the figures."""

    sent: int
    worst_ms: float
    worst_cpu_ms: float


class Neighbour:
    """A member in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def beside(cls, daemon: Process) -> "Neighbour":
        """Start a neighbour with a stable group."""
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tests.hostile.siege.neighbour",
                str(daemon.port),
                str(daemon.process_id),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        neighbour = cls(process)
        assert await neighbour._line() == "ready"
        return neighbour

    async def worst_ms(self) -> float:
        """Ends it; how late its latest answer was."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        report = await self._read_report()
        assert await self._process.wait() == 0
        return report.worst_ms

    async def report(self) -> NeighbourReport:
        """Return the waits since the last report. Raises AssertionError when a heartbeat has failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return await self._read_report()

    async def _read_report(self) -> NeighbourReport:
        line = await self._line()
        assert line, "a heartbeat of the neighbour failed; its error is above"
        return NeighbourReport(**json.loads(line))

    async def end(self) -> None:
        """Ends it however it is."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), TIMEOUT_S)
        return line.decode().strip()


class Siege:
    """A daemon to attack. Create the initial state, call `begin` to start the measurement, send with
    `attacker`, and call `toll` once for the result."""

    def __init__(self, daemon: Process, quiet: Process, log: Path, attacker: Attacker) -> None:
        self.daemon = daemon
        self.log = log
        """Of the daemon."""
        self.attacker = attacker
        self._quiet = quiet
        self._neighbours: list[Neighbour] = []
        self._before_bytes = 0

    async def begin(self) -> None:
        """Lets the neighbours in, and looks at the daemon's memory."""
        for daemon in (self.daemon, self._quiet):
            self._neighbours.append(await Neighbour.beside(daemon))
        self._before_bytes = read_memory_bytes(self.daemon.process_id, "VmRSS")
        reset_peak_memory(self.daemon.process_id)

    async def toll(self) -> Toll:
        """Ends the neighbours and all connections of the attacker, and waits for memory to be given back."""
        worst_ms, quiet_ms = [await neighbour.worst_ms() for neighbour in self._neighbours]
        peak_bytes = read_memory_bytes(self.daemon.process_id, "VmHWM")
        await self.attacker.close()
        kept_bytes = await self._kept()
        return Toll(worst_ms, quiet_ms, peak_bytes - self._before_bytes, kept_bytes)

    async def end(self) -> None:
        """Disconnect the remaining clients."""
        await self.attacker.close()
        for neighbour in self._neighbours:
            await neighbour.end()

    async def _kept(self) -> int:
        kept_bytes = 0
        for _ in range(round(GIVES_BACK_S / _LOOK_S)):
            kept_bytes = read_memory_bytes(self.daemon.process_id, "VmRSS") - self._before_bytes
            if kept_bytes < KEPT_BYTES:
                break
            await asyncio.sleep(_LOOK_S)
        return kept_bytes


@asynccontextmanager
async def besieged(
    directory: Path,
    options: Sequence[str] = (),
    *,
    place: Place = PLAIN,
    module: str = "coordinator",
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Siege]:
    """Start a daemon to attack. It must survive and stop cleanly.

    `place`: the attacked listener; neighbours use PLAINTEXT. `module`: another module to run. `variables`:
    environment variables of both daemons.
    """
    daemons: list[Process] = []
    port, listens = (0, []) if place is PLAIN else place.listening(directory)
    try:
        for name, run in (("attacked", module), ("quiet", "coordinator")):
            log = directory / f"{name}.log"
            chosen = (*OPTIONS, *((*options, *listens) if name == "attacked" else ()))
            daemons.append(
                await Process.start(
                    directory / name,
                    log,
                    chosen,
                    module=run,
                    variables=variables,
                    is_forked=variables is None,  # an allocator reads its variables when a program starts
                )
            )
            await daemons[-1].ready()
        attacker = Attacker(port or daemons[0].port, place)
        attacked, quiet = daemons
        siege = Siege(attacked, quiet, directory / "attacked.log", attacker)
        try:
            yield siege
        finally:
            await siege.end()
        daemons[0].terminate()
        assert await daemons[0].ended() == 0
    finally:
        for daemon in daemons:
            await daemon.kill()


def read_memory_bytes(process_id: int, field: str) -> int:
    """Return a line of the system's account of a process, such as VmRSS, in bytes."""
    text = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None, text
    return int(found[1]) * 1024


def reset_peak_memory(process_id: int) -> None:
    """Let VmHWM be the most memory that the process has from now on."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5")
