"""One soak from the start of the daemon to its end."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

from tests.crash.process import Process
from tests.soak import judge, state
from tests.soak.clients.client import SESSION_TIMEOUT_MS
from tests.soak.crowd import Crowd
from tests.soak.probe import Sample, look, violations
from tests.soak.promises import Promises
from tests.soak.visitors import TOPICS, Visitors

LOOK_EVERY_S: Final = 5
_SETTLE_S: Final = 5 * SESSION_TIMEOUT_MS / 1000
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "5",
    # Whatever is kept up to a bound has reached it long before half of the run is over.
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "5000",
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "2097152",
    "log.retention.check.interval.ms": "5000",
    "log.flush": "always",
    "max.incremental.fetch.session.cache.slots": "20",
    "producer.id.expiration.ms": "30000",
    "ledger.bytes": "65536",
    "auto.create.topics.enable": "false",
}


_PROMPT: Final = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
"""Makes the C library return freed memory at once.

Otherwise it keeps up to twice the largest response, and the resident memory reflects the last large Fetch.
"""


class Soak:
    """At the end `reasons` has the reasons of a failure."""

    def __init__(self, directory: Path, seed: int, show: Callable[[str], None]) -> None:
        self.samples: list[Sample] = []
        self.reasons: list[str] = []
        self._directory = directory
        self._log = directory / "groupd.log"
        self._chance = Random(seed)
        self._show = show
        self._promises = Promises()

    async def run(self, seconds: float) -> None:
        """Soaks for so long, and then for as long as everybody takes to go."""
        words = [word for pair in _PROPERTIES.items() for word in ("-o", "=".join(pair))]
        words += [word for topic in TOPICS.items() for word in ("--topic", ":".join(map(str, topic)))]
        daemon = await Process.start(
            self._directory / "data",
            self._log,
            ["--profile", "test", "--log-level", "warning", *words],
            module="tests.soak.forgetful_daemon",
            variables=_PROMPT,
        )
        try:
            await daemon.ready()
            await self._soak(daemon, seconds)
            daemon.terminate()
            code = await daemon.ended()
            if code:
                self.reasons.append(f"the daemon ended with {code}")
        finally:
            await daemon.kill()
        self.reasons += [
            f"the daemon logged: {line}"
            for line in self._log.read_text(errors="replace").splitlines()
            if " ERROR " in line or "Traceback" in line
        ][:20]

    async def _soak(self, daemon: Process, seconds: float) -> None:
        began_s = time.monotonic()

        async def sample() -> Sample:
            return await look(daemon.process_id, daemon.http_port, time.monotonic() - began_s)

        await self._warm(daemon)
        before = await sample()
        with (
            (self._directory / "members.log").open("ab") as log,
            (self._directory / "samples.log").open("a") as looks,
        ):
            bootstrap = f"127.0.0.1:{daemon.port}"
            crowd = Crowd(bootstrap, self._promises, self._chance, log)
            visitors = Visitors(bootstrap, crowd, self._promises, self._chance)
            crowd.gather()
            visitors.come()
            while time.monotonic() - began_s < seconds:
                await asyncio.sleep(LOOK_EVERY_S)
                self.samples.append(await sample())
                print(self.samples[-1], file=looks)
                if len(self.samples) % 12 == 0:
                    self._show(self._line(self.samples[-1], crowd, visitors))
            await visitors.go()
            await crowd.disperse()
        # A client that an exception still knows of goes with it.
        gc.collect()
        self.reasons += crowd.problems
        after = await self._settled(daemon, before, sample)
        self._show(self._line(after, crowd, visitors))
        self.reasons += self._promises.broken(await state.offsets(daemon.port))
        self.reasons += judge.grown(self.samples)
        found = await violations(daemon.http_port)
        self.reasons += judge.violated(found)
        self._show(
            f"violations: {', '.join(f'{name} {count}' for name, count in found.items() if count) or 'none'}"
        )

    async def _warm(self, daemon: Process) -> None:
        """Use everything once that groupd creates at first use, before the measurement begins."""
        for _ in range(3):
            await state.offsets(daemon.port)
            await look(daemon.process_id, daemon.http_port, 0)
        await asyncio.sleep(1)

    async def _settled(
        self, daemon: Process, before: Sample, sample: Callable[[], Awaitable[Sample]]
    ) -> Sample:
        """Wait until the sessions of dead members have expired; return the remaining state."""
        end_s = time.monotonic() + _SETTLE_S
        while True:
            after = await sample()
            living = {
                name: how
                for name, how in (await state.states(daemon.port)).items()
                if how not in ("Empty", "Dead")
            }
            found = [*judge.left(before, after), *(f"group {name} is {how}" for name, how in living.items())]
            if not found:
                return after
            if time.monotonic() > end_s:
                self.reasons += found
                return after
            await asyncio.sleep(1)

    def _line(self, sample: Sample, crowd: Crowd, visitors: Visitors) -> str:
        done = {
            **crowd.endings,
            **visitors.done,
            "commits kept": self._promises.kept,
            "not kept": self._promises.failed,
        }
        counts = {
            "connections": sample.connections,
            "waiters": sample.waiters,
            "timers": sample.timers,
            "tasks": sample.tasks,
            "descriptors": sum(sample.descriptors.values()),
            **done,
        }
        return (
            f"{sample.at_s / 60:5.1f} min: RSS {sample.rss_bytes / 2**20:.1f} MiB, {sample.memory_blocks} blocks, "
            + ", ".join(f"{name} {count}" for name, count in counts.items())
        )
