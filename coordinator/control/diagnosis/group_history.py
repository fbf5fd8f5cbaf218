"""Facts from events that a view of a group does not show: pending rejoins, refused joins, unknown assignees.

The history keeps a few facts of each group, for the groups with the latest events.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from coordinator.broker.group_event_text import format_reason
from coordinator.control.diagnosis.member_labels import format_name
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import (
    AssignmentReceived,
    EpochBumped,
    GroupConverted,
    GroupDeleted,
    GroupEvent,
    JoinRefused,
    MemberExpired,
    MemberIdRequired,
    MemberJoined,
    MemberReconciled,
    MemberRejoined,
    MemberToldToRejoin,
    RebalanceCompleted,
    RebalanceStarted,
    TargetComputed,
)
from coordinator.group.member_text import shorten_member_id

MAX_GROUPS: Final = 1_000
MAX_TOLD: Final = 100
MAX_REFUSED: Final = 20
MAX_INSTANCES: Final = 20
MAX_STRANGERS: Final = 20
_MAX_WHY: Final = 300


class RefusedJoins:
    """The JoinGroups of one client that were refused since it last joined: how many, and of the last one when and
    why. `reason` is printable."""

    __slots__ = ("at_ms", "count", "reason")

    def __init__(self) -> None:
        self.count = 0
        self.at_ms = 0
        self.reason = ""


class ExpiredInstance(NamedTuple):
    """A static member that ran out of time, as printable names."""

    group_instance_id: str
    client_id: str
    client_host: str


class GroupHistory:
    """The history of one group. Times are monotonic group time.

    `told_to_rejoin`: members that have yet to rejoin, and since when; `unknown_assignees`: ids in the assignment of
    `assigned_generation` that do not belong to a member; `refused_joins`: by printable client id;
    `expired_instances`: static members whose session expired, newest last; `join_count` counts JoinGroups;
    `changed_ms`: the last change of the epoch or target of a consumer group, or of the assignment of a member.
    """

    __slots__ = (
        "assigned_generation",
        "changed_ms",
        "expired_instances",
        "join_count",
        "refused_joins",
        "told_to_rejoin",
        "unknown_assignees",
    )

    def __init__(self) -> None:
        self.told_to_rejoin: dict[str, int] = {}
        self.unknown_assignees: tuple[str, ...] = ()
        self.assigned_generation = -1
        self.refused_joins: OrderedDict[str, RefusedJoins] = OrderedDict()
        self.expired_instances: OrderedDict[str, ExpiredInstance] = OrderedDict()
        self.join_count = 0
        self.changed_ms: int | None = None


NO_HISTORY: Final = GroupHistory()
"""The history of a group without events."""


class GroupHistories:
    """Listens to the events of groups."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, GroupHistory] = OrderedDict()

    def find_history(self, group_id: str) -> GroupHistory:
        """Return the history of a group. The caller must not change it."""
        return self._groups.get(group_id, NO_HISTORY)

    def on_event(self, event: GroupEvent, now: Now) -> None:
        """Something happened, at a group time."""
        take = _HANDLERS.get(type(event))
        if take is not None:
            take(self._find_or_add(event.group_id), event, now.monotonic_ms)
        elif type(event) is GroupDeleted:
            self._groups.pop(event.group_id, None)

    def _find_or_add(self, group_id: str) -> GroupHistory:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = GroupHistory()
            if len(self._groups) > MAX_GROUPS:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(group_id)
        return found

    def __len__(self) -> int:
        return len(self._groups)


def _on_rebalance_started(group: GroupHistory, event: RebalanceStarted, now_ms: int) -> None:
    group.told_to_rejoin.clear()


def _on_rebalance_completed(group: GroupHistory, event: RebalanceCompleted, now_ms: int) -> None:
    group.told_to_rejoin.clear()


def _on_told_to_rejoin(group: GroupHistory, event: MemberToldToRejoin, now_ms: int) -> None:
    if len(group.told_to_rejoin) < MAX_TOLD:
        group.told_to_rejoin.setdefault(event.member.member_id, now_ms)


def _on_join(
    group: GroupHistory, event: MemberJoined | MemberRejoined | MemberIdRequired, now_ms: int
) -> None:
    group.join_count += 1
    group.told_to_rejoin.pop(event.member.member_id, None)
    group.refused_joins.pop(format_name(event.member.client_id), None)


def _on_join_refused(group: GroupHistory, event: JoinRefused, now_ms: int) -> None:
    group.join_count += 1
    client_id = format_name(event.member.client_id)
    joins = group.refused_joins.get(client_id)
    if joins is None:
        joins = group.refused_joins[client_id] = RefusedJoins()
        if len(group.refused_joins) > MAX_REFUSED:
            group.refused_joins.popitem(last=False)
    joins.count += 1
    joins.at_ms = now_ms
    why = format_reason(event)
    joins.reason = printable(f"{event.error.name}, {why}" if why else event.error.name, _MAX_WHY)


def _on_member_expired(group: GroupHistory, event: MemberExpired, now_ms: int) -> None:
    group.told_to_rejoin.pop(event.member.member_id, None)
    member = event.member
    if member.group_instance_id is not None:
        instance_id = format_name(member.group_instance_id)
        expired = ExpiredInstance(instance_id, format_name(member.client_id), format_name(member.client_host))
        group.expired_instances[instance_id] = expired
        if len(group.expired_instances) > MAX_INSTANCES:
            group.expired_instances.popitem(last=False)


def _on_assignment_received(group: GroupHistory, event: AssignmentReceived, now_ms: int) -> None:
    group.unknown_assignees = tuple(
        [format_name(shorten_member_id(member_id)) for member_id in event.strangers[:MAX_STRANGERS]]
    )
    group.assigned_generation = event.generation_id


def _on_group_changed(group: GroupHistory, event: GroupEvent, now_ms: int) -> None:
    group.changed_ms = now_ms


_HANDLERS: Final[dict[type[GroupEvent], Callable[[GroupHistory, Any, int], None]]] = {
    RebalanceStarted: _on_rebalance_started,
    RebalanceCompleted: _on_rebalance_completed,
    MemberToldToRejoin: _on_told_to_rejoin,
    MemberJoined: _on_join,
    MemberRejoined: _on_join,
    MemberIdRequired: _on_join,
    JoinRefused: _on_join_refused,
    MemberExpired: _on_member_expired,
    AssignmentReceived: _on_assignment_received,
    EpochBumped: _on_group_changed,
    TargetComputed: _on_group_changed,
    MemberReconciled: _on_group_changed,
    GroupConverted: _on_group_changed,
}
