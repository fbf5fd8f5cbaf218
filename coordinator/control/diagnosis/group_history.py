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
    """The refused JoinGroups of one client since it last joined: their number, and the time and printable reason
    of the last one."""

    __slots__ = ("at_ms", "count", "reason")

    def __init__(self) -> None:
        self.count = 0
        self.at_ms = 0
        self.reason = ""


class ExpiredInstance(NamedTuple):
    """A static member with an expired session, as printable names."""

    group_instance_id: str
    client_id: str
    client_host: str


class GroupHistory:
    """The history of one group. Times are monotonic group time in milliseconds.

    - `told_to_rejoin`: the members that have yet to rejoin, each with the time since when.
    - `unknown_assignees`: ids in the assignment of `assigned_generation` that do not belong to a member.
    - `refused_joins`: refused JoinGroups by printable client id.
    - `expired_instances`: static members with an expired session, newest last.
    - `join_count`: the number of JoinGroups.
    - `changed_ms`: the time of the last change of a consumer group's epoch or target, or of a member's
      assignment.
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

    def on_rebalance_started(self, event: RebalanceStarted, now_ms: int) -> None:
        """Record that all members have to rejoin."""
        self.told_to_rejoin.clear()

    def on_rebalance_completed(self, event: RebalanceCompleted, now_ms: int) -> None:
        """Record that all members have rejoined or left."""
        self.told_to_rejoin.clear()

    def on_told_to_rejoin(self, event: MemberToldToRejoin, now_ms: int) -> None:
        """Record that a member got REBALANCE_IN_PROGRESS."""
        if len(self.told_to_rejoin) < MAX_TOLD:
            self.told_to_rejoin.setdefault(event.member.member_id, now_ms)

    def on_join(self, event: MemberJoined | MemberRejoined | MemberIdRequired, now_ms: int) -> None:
        """Record a JoinGroup that was accepted or answered with a member id."""
        self.join_count += 1
        self.told_to_rejoin.pop(event.member.member_id, None)
        self.refused_joins.pop(format_name(event.member.client_id), None)

    def on_join_refused(self, event: JoinRefused, now_ms: int) -> None:
        """Record a refused JoinGroup."""
        self.join_count += 1
        client_id = format_name(event.member.client_id)
        joins = self.refused_joins.get(client_id)
        if joins is None:
            joins = self.refused_joins[client_id] = RefusedJoins()
            if len(self.refused_joins) > MAX_REFUSED:
                self.refused_joins.popitem(last=False)
        joins.count += 1
        joins.at_ms = now_ms
        why = format_reason(event)
        joins.reason = printable(f"{event.error.name}, {why}" if why else event.error.name, _MAX_WHY)

    def on_member_expired(self, event: MemberExpired, now_ms: int) -> None:
        """Record the expired session of a static member."""
        self.told_to_rejoin.pop(event.member.member_id, None)
        member = event.member
        if member.group_instance_id is not None:
            instance_id = format_name(member.group_instance_id)
            expired = ExpiredInstance(
                instance_id, format_name(member.client_id), format_name(member.client_host)
            )
            self.expired_instances[instance_id] = expired
            if len(self.expired_instances) > MAX_INSTANCES:
                self.expired_instances.popitem(last=False)

    def on_assignment_received(self, event: AssignmentReceived, now_ms: int) -> None:
        """Record the unknown ids in the assignment of the leader."""
        self.unknown_assignees = tuple(
            [format_name(shorten_member_id(member_id)) for member_id in event.strangers[:MAX_STRANGERS]]
        )
        self.assigned_generation = event.generation_id

    def on_group_changed(self, event: GroupEvent, now_ms: int) -> None:
        """Record the time of a change of a consumer group's epoch or target, or of a member's assignment."""
        self.changed_ms = now_ms


NO_HISTORY: Final = GroupHistory()
"""The history of a group without events."""


class GroupHistories:
    """Maintains the histories of groups from their events."""

    def __init__(self) -> None:
        self.last_seq = -1
        """The number of the last event."""
        self._groups: OrderedDict[str, GroupHistory] = OrderedDict()

    def find_history(self, group_id: str) -> GroupHistory:
        """Return the history of a group, which the caller must not change."""
        return self._groups.get(group_id, NO_HISTORY)

    def on_event(self, event: GroupEvent, number: int, now: Now) -> None:
        """Add an event of a group, with its number and the time of the group."""
        self.last_seq = number
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


_HANDLERS: Final[dict[type[GroupEvent], Callable[[GroupHistory, Any, int], None]]] = {
    RebalanceStarted: GroupHistory.on_rebalance_started,
    RebalanceCompleted: GroupHistory.on_rebalance_completed,
    MemberToldToRejoin: GroupHistory.on_told_to_rejoin,
    MemberJoined: GroupHistory.on_join,
    MemberRejoined: GroupHistory.on_join,
    MemberIdRequired: GroupHistory.on_join,
    JoinRefused: GroupHistory.on_join_refused,
    MemberExpired: GroupHistory.on_member_expired,
    AssignmentReceived: GroupHistory.on_assignment_received,
    EpochBumped: GroupHistory.on_group_changed,
    TargetComputed: GroupHistory.on_group_changed,
    MemberReconciled: GroupHistory.on_group_changed,
    GroupConverted: GroupHistory.on_group_changed,
}
