"""What somebody waits for, as it is said in the body of a request, and what it means."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from coordinator.control.duration import duration_ms
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.waits.condition import Condition
from coordinator.control.waits.history import RebalancedAfter
from coordinator.control.waits.labels import named
from coordinator.control.waits.membership import (
    Absent,
    GenerationReached,
    InState,
    MemberCount,
    Present,
    Quiet,
)
from coordinator.control.waits.ownership import Owned, OwnedBy
from coordinator.control.waits.progress import Committed, LagAtMost
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.group.state_names import STATE_NAMES
from coordinator.suggestions import suggest

LONGEST_WAIT_MS: Final = 10 * 60_000
MOST_NAMES: Final = 1_000
"""In each list of a body."""
_NO_NAMES: Final[tuple[Any, ...]] = ([], {})
_CAUSES: Final = [cause.value for cause in RebalanceCause]


class MembersBetween(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many members at least, and at most (null: any number)."""

    min: int = 0
    max: int | None = None


class GenerationFrom(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """This generation or a later one."""

    min: int = 0


class Rebalanced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rebalance of a cause (a word of the ledger), and by whom (client, instance or member id); null: any."""

    cause: str | None = None
    client: str | None = None


class Conditions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a group is to be; null, an empty list and an empty object ask for nothing. All must hold at once.

    `state` is one of those of classic and consumer groups (Dead: there is no such group). A member whose first
    JoinGroup is parked does not count yet. `clients` and `absent` are names: client, instance or member ids.
    `owned` are topics of which each partition has exactly one owner, `owner` says whose partitions are
    ("orders-3": "alice"): in an assignment that all members have fetched. `committed` are offsets at least, as
    durable ("orders-0": 100). `lag_max` is for each partition of `topics`, or of the topics that members subscribe
    to; one without a commit counts from its log start. `rebalanced` is an entry of the ledger that ended after the
    event `after` (431, or "5f3a9c1e.431" with the mark of the process), or that the ledger still has; one that the
    next one broke off has ended once that has. `quiet` is how long there was no rebalance, in group time ("5s")."""

    state: str | None = None
    members: int | MembersBetween | None = None
    clients: list[str] | None = None
    absent: list[str] | None = None
    owned: list[str] | None = None
    owner: dict[str, str] | None = None
    committed: dict[str, int] | None = None
    lag_max: int | None = None
    topics: list[str] | None = None
    generation: GenerationFrom | None = None
    rebalanced: Rebalanced | None = None
    after: int | str | None = None
    quiet: int | str | None = None


class WaitConditions(Conditions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, and how long to wait for it, in real time: at most 10 minutes."""

    within: int | str = "10s"


def within_ms(body: WaitConditions) -> int:
    """How long to wait. Raises Problem (bad-request)."""
    waited_ms = duration_ms(body.within, "within")
    if waited_ms > LONGEST_WAIT_MS:
        raise _refused("within", f"{body.within} is longer than 10 minutes")
    return waited_ms


def conditions_of(body: Conditions) -> list[Condition]:
    """What a body asks for, in the order in which it is looked at. Raises Problem (bad-request)."""
    _check_names(body)
    if body.topics and body.lag_max is None:
        raise _refused("topics", "says of which topics the lag is meant, and lag_max is missing")
    if body.after is not None and body.rebalanced is None:
        raise _refused("after", "says after which event it has to have rebalanced, and rebalanced is missing")
    given = [field for field in _MAKERS if getattr(body, field) is not None]
    if not given:
        raise _refused("", "it says nothing of what the group is to be")
    return [_MAKERS[field](body) for field in given if getattr(body, field) not in _NO_NAMES]


def _check_names(body: Conditions) -> None:
    for field in ("clients", "absent", "owned", "owner", "committed", "topics"):
        names = getattr(body, field) or ()
        if len(names) > MOST_NAMES:
            raise _refused(field, f"it has {len(names)} entries, more than {MOST_NAMES}")


def _members(body: Conditions) -> Condition:
    wanted = body.members
    if not isinstance(wanted, MembersBetween):
        count = _least(wanted or 0, "members")
        return MemberCount(count, count)
    least, most = _least(wanted.min, "members/min"), wanted.max
    if most is not None and most < least:
        raise _refused("members/max", f"{most} is less than min, {least}")
    return MemberCount(least, most)


def _owner(body: Conditions) -> Condition:
    return OwnedBy({_partition(name, "owner"): owner for name, owner in (body.owner or {}).items()})


def _committed(body: Conditions) -> Condition:
    offsets = (body.committed or {}).items()
    return Committed(
        {_partition(name, "committed"): _least(one, f"committed/{name}") for name, one in offsets}
    )


def _rebalanced(body: Conditions) -> Condition:
    wanted = body.rebalanced or Rebalanced()
    if wanted.cause is not None:
        _one_of(wanted.cause, _CAUSES, "rebalanced/cause")
    return RebalancedAfter(wanted.cause, wanted.client, -1 if body.after is None else int(body.after))


_MAKERS: Final[dict[str, Callable[[Conditions], Condition]]] = {
    "state": lambda body: InState(_one_of(body.state or "", STATE_NAMES, "state")),
    "members": _members,
    "clients": lambda body: Present(body.clients or []),
    "absent": lambda body: Absent(body.absent or []),
    "generation": lambda body: GenerationReached(0 if body.generation is None else body.generation.min),
    "quiet": lambda body: Quiet(duration_ms(body.quiet or 0, "quiet")),
    "owned": lambda body: Owned(body.owned or []),
    "owner": _owner,
    "committed": _committed,
    "lag_max": lambda body: LagAtMost(_least(body.lag_max or 0, "lag_max"), body.topics or None),
    "rebalanced": _rebalanced,
}


def _least(value: int, field: str) -> int:
    if value < 0:
        raise _refused(field, f"{value} is less than 0")
    return value


def _one_of(value: str, words: list[str], field: str) -> str:
    if value not in words:
        raise _refused(field, f"{named(value)!r} is not valid {suggest(value, words)}")
    return value


def _partition(name: str, field: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    if not topic or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise _refused(f"{field}/{name}", f'{named(name)!r} is no partition: write "orders-3"')
    return topic, int(number)


def _refused(field: str, why: str) -> Problem:
    title = "The conditions are wrong" if not field else f"{named(field)} is wrong"
    detail = f"{why[0].upper()}{why[1:]}." if not field else f"{named(field)}: {why}."
    pointer = f"/{field}" if field else ""
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})
