"""Why a group rebalanced, and what it did to its partitions, read from its records in the order of the log.

A record says who is in the group after a rebalance, not why it came about. What it differs in from the record
before says why: somebody came, somebody went, a client came back under another member id (a restart: to the
coordinator somebody who left and somebody who came), the members ask for other topics, there are other partitions.
Where nothing of that differs, a member joined again of its own accord, or a cooperative assignor made the second of
its two steps: partitions that were taken from one member are given to another.

*Moved* are the partitions that a member had and another one has now. How many had to move follows from how
many each has in the end: a member who stays could have kept as many of its own as it is given. What moved
beyond that *need not have*; it says how sticky the assignor is.

The log does not tell a member that left from one whose session ran out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

UNKNOWN: Final = "unknown"
FIRST: Final = "first members"
CAME: Final = "came"
WENT: Final = "went"
CAME_BACK: Final = "came back"
CHANGED_MEMBERS: Final = "came and went"
SUBSCRIPTION: Final = "subscription changed"
PARTITIONS: Final = "partitions changed"
ASSIGNOR: Final = "assignor changed"
SECOND_STEP: Final = "second step"
JOINED_AGAIN: Final = "joined again"
LAST_WENT: Final = "last went"

Row = dict[str, Any]
Place = tuple[str, int]
"""A topic, or its id, and a partition."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group after a rebalance. `clients` by member (its instance id if it is static), each client id and host;
    `subscriptions` and `holds` by member, None where they cannot be read."""

    clients: Mapping[str, str]
    subscriptions: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    holds: Mapping[str, frozenset[Place]] | None = None
    protocol: str | None = None

    @property
    def places(self) -> frozenset[Place]:
        """All partitions that somebody has."""
        return frozenset().union(*(self.holds or {}).values())


def client_name(client_id: str | None, client_host: str | None) -> str:
    """What a client is called, whatever its member id: `orders@10.0.0.7`."""
    return f"{client_id or '?'}@{(client_host or '?').removeprefix('/')}"


def cause_of(before: Standing | None, now: Standing, ever_held: Iterable[Place], *, is_new: bool) -> Row:
    """What a rebalance came of: `cause`, and the clients that `came`, `went` and `came_back`, each as often as
    it did.

    In: how the group stood before, None where nobody knows, unless the group `is_new` (or was empty); the
    partitions that somebody of the group ever had before.
    """
    if before is None and not is_new:
        return {"cause": UNKNOWN, "came": [], "went": [], "came_back": []}
    old = before or Standing({})
    came = Counter(client for member, client in now.clients.items() if member not in old.clients)
    went = Counter(client for member, client in old.clients.items() if member not in now.clients)
    back = came & went
    row = {
        "came": sorted((came - back).elements()),
        "went": sorted((went - back).elements()),
        "came_back": sorted(back.elements()),
    }
    return {"cause": _cause(old, now, row, frozenset(ever_held)), **row}


def _cause(old: Standing, now: Standing, who: Row, ever_held: frozenset[Place]) -> str:
    if not now.clients:
        return LAST_WENT
    if not old.clients:
        return FIRST
    by_who = {
        (True, False, False): CAME,
        (False, True, False): WENT,
        (False, False, True): CAME_BACK,
    }
    whether = bool(who["came"]), bool(who["went"]), bool(who["came_back"])
    if any(whether):
        return by_who.get(whether, CHANGED_MEMBERS)
    if any(old.subscriptions.get(member) != topics for member, topics in now.subscriptions.items()):
        return SUBSCRIPTION
    if old.protocol != now.protocol:
        return ASSIGNOR
    if old.holds is None or now.holds is None:
        return JOINED_AGAIN
    if now.places - ever_held:
        return PARTITIONS
    if now.places > old.places:
        return SECOND_STEP
    return PARTITIONS if old.places - now.places and not _gave_up(old, now) else JOINED_AGAIN


def _gave_up(old: Standing, now: Standing) -> bool:
    """Whether partitions are free so that others can have them next: the first of two steps."""
    return (now.protocol or "").startswith("cooperative") and now.places < old.places


def moves_of(before: Standing | None, now: Standing) -> Row:
    """`n_partitions` that are held, `moved` and `needless`, `fewest` and `most` of a member, and `idle`
    members, who have none; NULL what cannot be read."""
    if now.holds is None or not now.clients:
        return dict.fromkeys(("n_partitions", "moved", "needless", "fewest", "most", "idle"))
    numbers = [len(now.holds.get(member, ())) for member in now.clients]
    row: Row = {
        "n_partitions": len(now.places),
        "moved": None,
        "needless": None,
        "fewest": min(numbers),
        "most": max(numbers),
        "idle": numbers.count(0),
    }
    if before is None or before.holds is None:
        return row
    owners = {place: member for member, places in before.holds.items() for place in places}
    moved = sum(
        owners.get(place, member) != member for member, places in now.holds.items() for place in places
    )
    could_stay = stayed = 0
    for member in before.clients.keys() & now.clients.keys():
        own, given = before.holds.get(member, frozenset()), now.holds.get(member, frozenset())
        could_stay += min(len(given), len(own & now.places))
        stayed += len(own & given)
    return row | {"moved": moved, "needless": could_stay - stayed}


@dataclass(slots=True)
class Course:
    """A group from one rebalance to the next."""

    standing: Standing | None = None
    settled: Standing | None = None
    """The last one in which somebody held partitions that nobody was to take over: what moves count from."""
    ever_held: set[Place] = field(default_factory=set)
    is_new: bool = False

    def rebalanced(self, now: Standing) -> Row:
        """What the rebalance that led there came of, and what it moved."""
        row = cause_of(self.standing, now, self.ever_held, is_new=self.is_new)
        row |= moves_of(self.settled, now)
        if self.standing is not None and row["cause"] != SECOND_STEP and _gave_up(self.standing, now):
            row |= {"moved": None, "needless": None}
        else:
            self.settled = now
        self.ever_held |= now.places
        self.standing, self.is_new = now, not now.clients
        return row

    def ended(self) -> None:
        """The group is deleted, or another one of its name begins."""
        self.standing = self.settled = None
        self.ever_held.clear()
        self.is_new = True
