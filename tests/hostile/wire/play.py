"""The players: each has a connection, sends bursts of requests, and sometimes misbehaves."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.hostile.wire import memberships, offsets, views
from tests.hostile.wire.connection import Wire
from tests.hostile.wire.question import Question, Stage

_CLIENT_IDS: Final = ("player", "", None, "зритель")
_QUESTIONS: Final = (memberships.QUESTIONS * 4, offsets.QUESTIONS * 3, views.QUESTIONS)


@dataclass(frozen=True)
class Played:
    """What happened."""

    asked: Counter[str]
    told: int
    vices: Counter[str]
    joined: int


class Play:
    """One play on the daemon at `port`."""

    def __init__(self, seed: int, port: int) -> None:
        self._port = port
        self._seed = seed
        self.stage = Stage(Random(f"{seed} stage"))
        self.asked: Counter[str] = Counter()
        self.vices: Counter[str] = Counter()

    async def run(self, players: int, bursts: int) -> Played:
        """All players at once, each for so many bursts. Raises Violation, Unanswered."""
        async with asyncio.TaskGroup() as group:
            for number in range(players):
                group.create_task(self._player(Random(f"{self._seed} {number}"), bursts))
        told = self.stage.reading.told
        joined = sum(bool(member.members) for member in self.stage.members)
        return Played(self.asked, told, self.vices, joined)

    async def _player(self, chance: Random, bursts: int) -> None:
        wire = await Wire.open(chance, self._port)
        for _ in range(bursts):
            questions = [self._question(chance) for _ in range(chance.choice((1, 1, 1, 2, 5)))]
            for question in questions:
                await wire.send(question.request, question.version, chance.choice(_CLIENT_IDS))
            if await self._misbehaves(chance, wire):
                wire = await Wire.open(chance, self._port)
                continue
            for question in questions:
                question.hear(await wire.receive())
        wire.vanish()

    def _question(self, chance: Random) -> Question:
        question = chance.choice([one for kind in _QUESTIONS for one in kind])(self.stage)
        self.asked[type(question.request).__name__] += 1
        return question

    async def _misbehaves(self, chance: Random, wire: Wire) -> bool:
        """Perhaps misbehave; return whether the connection is closed."""
        match chance.randrange(40):
            case 0:
                self.vices["vanished"] += 1
                wire.vanish()
                return True
            case 1:
                self.vices["half a request"] += 1
                half = self._question(chance)
                await wire.send_half(half.request, half.version)
                wire.vanish()
                return True
            case 2 | 3:
                self.vices["did not read"] += 1
                await wire.dawdle()
        return False
