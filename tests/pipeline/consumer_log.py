"""Logs of consumer groups as the product's own core writes them."""

import random
from typing import Any

from protocol.records.group_record_serde import TYPES_BY_KEY, encode_key, encode_value
from storage.record import Record
from tests.group.consumer.members import Members

Held = set[tuple[str, bytes, int]]
"""Who holds what: member id, topic id, partition."""


class ConsumerLog(Members):
    """A coordinator that remembers its records with the times of their writes."""

    def __init__(self) -> None:
        self.times_ms: list[int] = []
        super().__init__()

    def take(self, outcome: Any) -> None:
        super().take(outcome)
        self.stamp()

    def stamp(self) -> None:
        """Everything new was written now."""
        self.times_ms += [self.now.wall_ms] * (len(self.log) - len(self.times_ms))

    @property
    def written(self) -> list[Record]:
        """The log's records."""
        return [
            Record(
                -1,
                time_ms,
                encode_key(fact.key),
                None
                if fact.value is None
                else encode_value(fact.value, TYPES_BY_KEY[type(fact.key)].find_value_version(fact.value)),
            )
            for fact, time_ms in zip(self.records, self.times_ms, strict=True)
        ]

    def members(self) -> list[str]:
        """The ids of the members, in order."""
        return sorted(member.member_id for member in self.described().members)


class Life:
    """Members that join, obey or ignore assignments, and leave; a seed determines their actions."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.group = ConsumerLog()
        self._told: dict[str, tuple[int, dict[bytes, list[int]]]] = {}
        self._n = 0

    def step(self) -> None:
        """One deed of one member, some time after the last."""
        self.group.advance(self.chance.choice([1, 2, 400, 1500]))
        deed = self.chance.random()
        if not self._told or (deed < 0.15 and len(self._told) < 4):
            self._n += 1
            self._hear(f"m{self._n}", self.group.enter(f"m{self._n}"))
        elif deed < 0.25:
            member_id = self.chance.choice(sorted(self._told))
            self.group.say(member_id, -1)
            del self._told[member_id]
        else:
            member_id = self.chance.choice(sorted(self._told))
            epoch, owned = self._told[member_id]
            self._hear(member_id, self.group.say(member_id, epoch, owned=owned))

    def _hear(self, member_id: str, told: tuple[Any, Any]) -> None:
        epoch, given = told
        if not isinstance(epoch, int) or epoch < 0 or not isinstance(given, dict | None):
            self._told.pop(member_id, None)  # it was removed meanwhile
            return
        before = self._told.get(member_id, (0, {}))[1]
        self._told[member_id] = epoch, before if given is None else given
