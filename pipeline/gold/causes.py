"""Find the cause of each rebalance of a group, and its partition moves, from the group's records in log order.

A group metadata record lists the members after a rebalance but not its cause. The difference from the previous
record gives the cause:

- a client joined or left;
- a client restarted, so it has another member id; the coordinator sees one leave and one join;
- the members subscribe to other topics, or the set of partitions changed.

Without such a difference, either a member rejoined without a visible reason, or a cooperative assignor made the
second of its two steps and assigned the partitions that a member had revoked.

A partition *moved* if another member owns it now. The minimum number of moves follows from the number of partitions
of each member: a remaining member could keep as many of its own partitions as it is assigned now. Moves beyond that
minimum are *needless* and measure the stickiness of the assignor.

The log does not distinguish a member that left from one with an expired session.
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
"""A topic name or topic id, and a partition."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group after a rebalance. `clients` maps each member (a static member by its instance id) to client id and
    host. `subscriptions` and `holds` are by member; None if they cannot be decoded.
    """

    clients: Mapping[str, str]
    subscriptions: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    holds: Mapping[str, frozenset[Place]] | None = None
    protocol: str | None = None

    @property
    def places(self) -> frozenset[Place]:
        """All assigned partitions."""
        return frozenset().union(*(self.holds or {}).values())


def client_name(client_id: str | None, client_host: str | None) -> str:
    """Return a client's name without its member id, such as `orders@10.0.0.7`."""
    return f"{client_id or '?'}@{(client_host or '?').removeprefix('/')}"


def cause_of(before: Standing | None, now: Standing, ever_held: Iterable[Place], *, is_new: bool) -> Row:
    """Return the `cause` of a rebalance and the clients that `came`, `went` and `came_back`, each with repetitions.

    Args:
        before: the group before the rebalance; None if unknown, or if the group `is_new` or was empty.
        now: the group after the rebalance.
        ever_held: the partitions that any member owned earlier.
        is_new: whether this is the group's first rebalance.
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
    """Return whether members revoked partitions without a new owner: the first of two cooperative steps."""
    return (now.protocol or "").startswith("cooperative") and now.places < old.places


def moves_of(before: Standing | None, now: Standing) -> Row:
    """Count the moves of a rebalance.

    Returns the columns `n_partitions` (assigned), `moved`, `needless`, `fewest` and `most` (per member), and `idle`
    (members without partitions). Undecodable values are NULL.
    """
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
    """A group's state from one rebalance to the next."""

    standing: Standing | None = None
    settled: Standing | None = None
    """The last generation with assigned partitions and none awaiting a new owner: the baseline for counting moves.
    """
    ever_held: set[Place] = field(default_factory=set)
    is_new: bool = False

    def rebalanced(self, now: Standing) -> Row:
        """Return the cause and the moves of the rebalance that led to `now`."""
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
        """Handle a tombstone of the group, or the start of a new group with the same name."""
        self.standing = self.settled = None
        self.ever_held.clear()
        self.is_new = True
