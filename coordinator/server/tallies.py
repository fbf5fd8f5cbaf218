"""What befell groups and their members, as counts that metrics give: of all groups, and of each."""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeAlias

from coordinator.group.consumer.events import ConsumerMemberFenced, EpochBumped, FenceCause
from coordinator.group.events import CommitRefused, Event, MemberExpired, MembersEvicted, RebalanceStarted

EVICTION_PHASES: Final = ("join", "sync", "revoke")
"""What a member did not do in time, before it was put out: rejoin, ask for its assignment, give up partitions."""


class Tally(StrEnum):
    """What is counted."""

    REBALANCES = "rebalances"
    """Those begun; of consumer groups, epochs."""
    EVICTED = "evicted"
    """Members, by phase."""
    EXPIRED = "expired"
    """Sessions of members."""
    COMMITS_REFUSED = "commits refused"
    """Requests, by Kafka's name of the error."""


Tallies: TypeAlias = Counter[tuple[Tally, str]]
"""Each with its label, "" where it has none."""

_PHASES: Final = {
    FenceCause.NOT_REJOINED: "join",
    FenceCause.NOT_SYNCED: "sync",
    FenceCause.NOT_REVOKED: "revoke",
}


Tallied: TypeAlias = tuple[tuple[Tally, str], int]
"""What is to be added to which count."""


def tallied(event: Event) -> Tallied | None:
    """What of that is counted, of something that happened in a group; None for nothing."""
    found = _TALLIED.get(type(event))
    return None if found is None else found(event)


def _expired(event: MemberExpired) -> Tallied:
    # Who never came back with its member id had no session.
    return (Tally.EXPIRED, ""), int(not event.pending)


def _fenced(event: ConsumerMemberFenced) -> Tallied:
    phase = _PHASES.get(event.cause)
    if phase is not None:
        return (Tally.EVICTED, phase), 1
    return (Tally.EXPIRED, ""), int(event.cause is FenceCause.SESSION_EXPIRED)


_TALLIED: Final[dict[type[Event], Callable[[Any], Tallied]]] = {
    RebalanceStarted: lambda _: ((Tally.REBALANCES, ""), 1),
    EpochBumped: lambda _: ((Tally.REBALANCES, ""), 1),
    MembersEvicted: lambda event: ((Tally.EVICTED, event.phase), len(event.members)),
    MemberExpired: _expired,
    ConsumerMemberFenced: _fenced,
    CommitRefused: lambda event: ((Tally.COMMITS_REFUSED, event.error.name), 1),
}
