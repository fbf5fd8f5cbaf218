"""Who is a member of which group, for how long, and how it ends."""

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import IO, Final

from tests.soak.clients import KINDS
from tests.soak.clients.client import SESSION_TIMEOUT_MS
from tests.soak.life import Life
from tests.soak.promises import Promises

STABLE: Final = "soak-stable-"
"""Topics that stay."""
FLEETING: Final = "soak-fleeting-"
"""Topics that come and go."""
_ALL: Final = "soak-"
_SESSION_S: Final = SESSION_TIMEOUT_MS / 1000
_SHORTEST_S: Final = 4.0
_MEAN_S: Final = 25.0


@dataclass(frozen=True, slots=True)
class Seat:
    """A place in a group that is taken by one member after another."""

    kind: str
    group: str
    pattern: str
    instance_id: str | None = None


def seats() -> list[Seat]:
    """A group for each client, two of its three members dynamic, and one of them all that reads every topic."""
    found: list[Seat] = []
    for kind in KINDS:
        group = f"group-{kind}"
        found += [Seat(kind, group, STABLE), Seat(kind, group, STABLE)]
        found += [Seat(kind, group, STABLE, f"static-{kind}"), Seat(kind, "group-mixed", _ALL)]
    return found


class Crowd:
    """Members that come and go until they are stopped. `endings` counts how they ended."""

    def __init__(self, bootstrap: str, promises: Promises, chance: Random, log: IO[bytes]) -> None:
        self.endings: Counter[str] = Counter()
        self.problems: list[str] = []
        """Members with an unexpected end."""
        self._bootstrap = bootstrap
        self._promises = promises
        self._chance = chance
        self._log = log
        self._numbers = itertools.count(1)
        self._is_over = asyncio.Event()
        self._seats: list[asyncio.Task[None]] = []

    def gather(self) -> None:
        """Fills the seats, for as long as the crowd is there."""
        for seat in seats():
            self._seats.append(asyncio.create_task(self._take_turns(seat)))

    async def disperse(self) -> None:
        """Ends every member: half of them leave, the others die."""
        self._is_over.set()
        await asyncio.gather(*self._seats)

    async def live(self, seat: Seat, seconds: float) -> None:
        """One member's life in a seat."""
        name = f"{seat.kind}-{next(self._numbers)}"
        life = await Life.begin(
            *(seat.kind, self._bootstrap, seat.group, seat.pattern, name, seat.instance_id),
            *(self._promises, self._log),
        )
        try:
            await self._pass(seconds)
            if not self._is_over.is_set() and self._chance.random() < 0.25:
                # It may sleep for longer than its session lasts, and then finds itself out of the group.
                await life.sleep(self._chance.uniform(0.2, 2) * _SESSION_S)
                self.endings["slept meanwhile"] += 1
                await self._pass(seconds)
            if life.has_ended:
                self.problems.append(f"{name} ended by itself")
                return
            await self._end(life)
        except (AssertionError, TimeoutError) as problem:
            self.problems.append(f"{name} did not leave: {problem!r}")
        finally:
            await life.kill()

    async def _end(self, life: Life) -> None:
        if self._chance.random() < 0.5:
            self.endings["left"] += 1
            await life.leave()
        else:
            self.endings["killed"] += 1
            await life.kill()

    async def _take_turns(self, seat: Seat) -> None:
        while not self._is_over.is_set():
            await self.live(seat, _SHORTEST_S + self._chance.expovariate(1 / _MEAN_S))
            # A static member that is back soon is not missed.
            await self._pass(self._chance.choice([0, 1, 2 * _SESSION_S]))

    async def _pass(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._is_over.wait(), seconds)
        except TimeoutError:
            return
