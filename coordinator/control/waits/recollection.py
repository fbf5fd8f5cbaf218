"""What events told of groups that a view of them does not show: who was told to rejoin, who was refused, whom an
assignment names that is nobody. Little of each, of the groups of which something was heard last.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coordinator.control.waits.labels import named
from coordinator.group.consumer.events import EpochBumped, GroupConverted, MemberReconciled, TargetComputed
from coordinator.group.events import (
    AssignmentReceived,
    Event,
    GroupDeleted,
    JoinRefused,
    MemberExpired,
    MemberIdRequired,
    MemberJoined,
    MemberRejoined,
    MemberToldToRejoin,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.log_words import short_id
from coordinator.server.refusal_lines import reason_of

MOST_GROUPS: Final = 1_000
MOST_TOLD: Final = 100
MOST_REFUSED: Final = 20
MOST_INSTANCES: Final = 20
MOST_STRANGERS: Final = 20
_MAX_WHY: Final = 300


class RefusedJoins:
    """The JoinGroups of one client that were refused since it last joined: how many, and of the last one when and
    why. `why` is printable."""

    __slots__ = ("at_ms", "count", "why")

    def __init__(self) -> None:
        self.count = 0
        self.at_ms = 0
        self.why = ""


class ExpiredInstance(NamedTuple):
    """A static member that ran out of time, as printable names."""

    group_instance_id: str
    client_id: str
    client_host: str


class Remembered:
    """Of one group. Times are monotonic group time. `told`: who was told to rejoin and has not, since when;
    `strangers`: ids in the assignment of `assigned_generation` that are no member's; `refused`: by client id, as it
    is printed; `expired_instances`: static members that ran out of time, newest last; `joins` counts JoinGroups;
    `changed_ms` is when a consumer group last had another epoch or target, or a member another assignment."""

    __slots__ = (
        "assigned_generation",
        "changed_ms",
        "expired_instances",
        "joins",
        "refused",
        "strangers",
        "told",
    )

    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        self.strangers: tuple[str, ...] = ()
        self.assigned_generation = -1
        self.refused: OrderedDict[str, RefusedJoins] = OrderedDict()
        self.expired_instances: OrderedDict[str, ExpiredInstance] = OrderedDict()
        self.joins = 0
        self.changed_ms: int | None = None


NOTHING: Final = Remembered()
"""Of a group of which nothing was heard."""


class Recollection:
    """Listens to the events of groups."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, Remembered] = OrderedDict()

    def of(self, group_id: str) -> Remembered:
        """What is remembered of a group; not to be changed."""
        return self._groups.get(group_id, NOTHING)

    def note(self, event: Event, now: Now) -> None:
        """Something happened, at a group time."""
        take = _TAKERS.get(type(event))
        if take is not None:
            take(self._entry(event.group_id), event, now.monotonic_ms)
        elif type(event) is GroupDeleted:
            self._groups.pop(event.group_id, None)

    def _entry(self, group_id: str) -> Remembered:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = Remembered()
            if len(self._groups) > MOST_GROUPS:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(group_id)
        return found

    def __len__(self) -> int:
        return len(self._groups)


def _started(group: Remembered, event: RebalanceStarted, now_ms: int) -> None:
    group.told.clear()


def _completed(group: Remembered, event: RebalanceCompleted, now_ms: int) -> None:
    group.told.clear()


def _told(group: Remembered, event: MemberToldToRejoin, now_ms: int) -> None:
    if len(group.told) < MOST_TOLD:
        group.told.setdefault(event.member.member_id, now_ms)


def _came(group: Remembered, event: MemberJoined | MemberRejoined | MemberIdRequired, now_ms: int) -> None:
    group.joins += 1
    group.told.pop(event.member.member_id, None)
    group.refused.pop(named(event.member.client_id), None)


def _refused(group: Remembered, event: JoinRefused, now_ms: int) -> None:
    group.joins += 1
    client_id = named(event.member.client_id)
    joins = group.refused.get(client_id)
    if joins is None:
        joins = group.refused[client_id] = RefusedJoins()
        if len(group.refused) > MOST_REFUSED:
            group.refused.popitem(last=False)
    joins.count += 1
    joins.at_ms = now_ms
    why = reason_of(event)
    joins.why = printable(f"{event.error.name}, {why}" if why else event.error.name, _MAX_WHY)


def _expired(group: Remembered, event: MemberExpired, now_ms: int) -> None:
    group.told.pop(event.member.member_id, None)
    member = event.member
    if member.group_instance_id is not None:
        instance_id = named(member.group_instance_id)
        expired = ExpiredInstance(instance_id, named(member.client_id), named(member.client_host))
        group.expired_instances[instance_id] = expired
        if len(group.expired_instances) > MOST_INSTANCES:
            group.expired_instances.popitem(last=False)


def _assigned(group: Remembered, event: AssignmentReceived, now_ms: int) -> None:
    group.strangers = tuple([named(short_id(member_id)) for member_id in event.strangers[:MOST_STRANGERS]])
    group.assigned_generation = event.generation_id


def _changed(group: Remembered, event: Event, now_ms: int) -> None:
    group.changed_ms = now_ms


_TAKERS: Final[dict[type[Event], Callable[[Remembered, Any, int], None]]] = {
    RebalanceStarted: _started,
    RebalanceCompleted: _completed,
    MemberToldToRejoin: _told,
    MemberJoined: _came,
    MemberRejoined: _came,
    MemberIdRequired: _came,
    JoinRefused: _refused,
    MemberExpired: _expired,
    AssignmentReceived: _assigned,
    EpochBumped: _changed,
    TargetComputed: _changed,
    MemberReconciled: _changed,
    GroupConverted: _changed,
}
