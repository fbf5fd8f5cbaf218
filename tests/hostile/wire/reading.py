"""A checker of responses. It is independent of the implementation.

Every request and every response gets a number, in the order in which this process sent and received them. A
response that arrived before a request was sent happened before it; all others are concurrent. The rules are:

1. Generations in joins, syncs and heartbeats never fall. 2. A generation has one leader, and only the leader
gets the list of members. 3. A member that left with an acknowledgement does not appear again. 4. An
assignment is the one that the leader of that generation sent for that member. In one generation all
assignments come from the same SyncGroup. 5. A fetch returns the last acknowledged commit, or a concurrent
one, and never a refused one. 6. No two members get the same id.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias

Place: TypeAlias = tuple[str, str, int]
NEVER: Final = 2**62
NO_OFFSET: Final = -1


class Violation(AssertionError):
    """A response breaks a rule."""


def demand(holds: bool, what: str) -> None:
    """Violation unless it holds."""
    if not holds:
        raise Violation(what)


@dataclass
class Write:
    """A commit or a deletion. `ended` is when it was known to have happened, NEVER while it is not."""

    offset: int
    began: int
    ended: int = NEVER
    is_refused: bool = False


@dataclass
class GroupReading:
    """The responses of one group."""

    floor: int = 0
    leaders: dict[int, str] = field(default_factory=dict)
    plans: defaultdict[int, list[tuple[str, Mapping[str, bytes]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The senders of SyncGroups and their assignments, by generation."""
    left: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What was known when a question was sent."""

    number: int
    floor: int = 0


class Reading:
    """All requests and responses of one play."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._groups: defaultdict[str, GroupReading] = defaultdict(GroupReading)
        self._ids: set[str] = set()
        self._writes: defaultdict[Place, list[Write]] = defaultdict(lambda: [Write(NO_OFFSET, 0, 0)])
        self.told = 0
        """Answers that were judged."""

    def asks(self, group_id: str = "") -> Asked:
        """A question is about to be sent."""
        return Asked(next(self._numbers), self._groups[group_id].floor)

    # Members

    def new_id(self, member_id: str) -> None:
        """Somebody without an id was given one."""
        demand(member_id not in self._ids, f"{member_id} was given out twice")
        self._ids.add(member_id)

    def joined(
        self, asked: Asked, group_id: str, member_id: str, generation_id: int, leader: str, members: list[str]
    ) -> None:
        """A join was answered without error."""
        group = self._heard(asked, group_id, generation_id, "joined")
        known = group.leaders.setdefault(generation_id, leader)
        demand(known == leader, f"{group_id}: generation {generation_id} is led by {known} and {leader}")
        demand(
            bool(members) == (leader == member_id),
            f"{group_id}: {member_id} gets the members {members} under the leader {leader}",
        )
        demand(len(members) == len(set(members)), f"{group_id}: {members} names a member twice")
        demand(not members or leader in members, f"{group_id}: the leader {leader} is not among {members}")
        for member in (member_id, leader, *members):
            self._not_left(asked, group_id, member)

    def sends_plan(
        self, group_id: str, generation_id: int, member_id: str, plan: Mapping[str, bytes]
    ) -> None:
        """A SyncGroup is about to be sent; it is a plan if its sender leads that generation."""
        self._groups[group_id].plans[generation_id].append((member_id, plan))

    def synced(self, asked: Asked, group_id: str, member_id: str, generation_id: int, part: bytes) -> None:
        """A sync was answered without error."""
        group = self._heard(asked, group_id, generation_id, "synced")
        self._not_left(asked, group_id, member_id)
        possible = [
            (sender, plan)
            for sender, plan in group.plans[generation_id]
            if plan.get(member_id, b"") == part and group.leaders.get(generation_id, sender) == sender
        ]
        demand(
            bool(possible),
            f"{group_id}: no leader of generation {generation_id} assigned {part!r} to {member_id}",
        )
        group.plans[generation_id] = possible

    def beat(self, asked: Asked, group_id: str, member_id: str, generation_id: int) -> None:
        """Record a heartbeat without an error or with a rebalance: the member belongs to this generation."""
        demand(
            generation_id >= asked.floor,
            f"{group_id}: a heartbeat of generation {generation_id} counts after generation {asked.floor}",
        )
        self._not_left(asked, group_id, member_id)

    def left(self, group_id: str, member_id: str) -> None:
        """A leave was acknowledged."""
        self._groups[group_id].left.setdefault(member_id, next(self._numbers))

    def _heard(self, asked: Asked, group_id: str, generation_id: int, what: str) -> GroupReading:
        self.told += 1
        group = self._groups[group_id]
        demand(
            generation_id >= asked.floor,
            f"{group_id}: {what} generation {generation_id} after generation {asked.floor}",
        )
        group.floor = max(group.floor, generation_id)
        return group

    def _not_left(self, asked: Asked, group_id: str, member_id: str) -> None:
        left = self._groups[group_id].left.get(member_id, NEVER)
        demand(left > asked.number, f"{group_id}: {member_id} has left and is still one of the members")

    # Offsets

    def writes(self, asked: Asked, place: Place, offset: int) -> Write:
        """A commit, or with NO_OFFSET a deletion, is about to be sent."""
        write = Write(offset, asked.number)
        self._writes[place].append(write)
        return write

    def wrote(self, write: Write, error: int) -> None:
        """It was answered."""
        self.told += 1
        if error:
            write.is_refused = True
        else:
            write.ended = min(write.ended, next(self._numbers))

    def fetched(self, asked: Asked, place: Place, offset: int) -> None:
        """A fetch showed an offset, or none."""
        self.told += 1
        now = next(self._numbers)
        candidates = [write for write in self._writes[place] if write.offset == offset]
        demand(bool(candidates), f"{place}: nobody committed {offset}")
        demand(not all(write.is_refused for write in candidates), f"{place}: {offset} was refused")
        possible = [write for write in candidates if not self._is_replaced(place, write, asked)]
        demand(bool(possible), f"{place}: {offset} is older than the acknowledged offset")
        if len(possible) == 1:
            # From now on it is known to have happened, acknowledged or not.
            possible[0].ended = min(possible[0].ended, now)

    def _is_replaced(self, place: Place, write: Write, asked: Asked) -> bool:
        """Return whether another write began after this one ended, and ended before the request."""
        return write.is_refused or any(
            other.began > write.ended and other.ended < asked.number and not other.is_refused
            for other in self._writes[place]
        )
