"""Triggers of rebalances: member events before the start of a rebalance, in the same turn of the same group,
and recent operator actions.

An operator action is attached to the open entries that it concerns. An action of the last seconds is also
attached to the next entry that opens, unless an entry of that group has it already. Times are process time.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from coordinator.control.ledger.entry_builder import format_name, format_optional_name
from coordinator.control.ledger.ledger_entry import ActorSilence, RelatedAction
from coordinator.control.operator_actions import OperatorAction
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.group import group_event_types
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import ConsumerMemberFenced

MAX_CLOCK_DIFFERENCE_MS: Final = 1_000
"""The limit of the difference between group time and process time. With a larger one, times of silence in
group time do not hold for the process."""


class TriggerSilence(NamedTuple):
    """The time since the last request of an actor."""

    last_heard_ms_ago: int | None
    real: ActorSilence


class _SilenceSource(Protocol):
    def silent_ms(self, connection_id: int) -> int | None: ...

    def connection_closed_ms_ago(self, connection_id: int) -> int | None: ...


class LedgerClocks(NamedTuple):
    """The times of the events of a ledger."""

    group_now: Callable[[str], Now]
    """Returns the time of a group."""
    real_ns: Callable[[], int] = clock.monotonic_ns
    """Returns the monotonic time of the process, nanoseconds."""
    turn: Callable[[], int] = lambda: 0
    """Returns the number of the machine's current call, which publishes the events."""


class TriggerBuffer:
    def __init__(self) -> None:
        self._group_id = ""
        self._when: tuple[Now, int] | None = None
        """The time of the group and the number of the turn. With a frozen clock, many turns have the same
        time."""
        self._events: list[group_event_types.GroupEvent] = []

    def add(self, event: group_event_types.GroupEvent, now: Now, turn: int) -> None:
        """Keep an event until an event of another group or of another turn arrives."""
        if not self._is_same_turn(event.group_id, now, turn):
            self._group_id, self._when, self._events = event.group_id, (now, turn), []
        self._events.append(event)

    def take_events(self, group_id: str, now: Now, turn: int) -> list[group_event_types.GroupEvent]:
        """Take the events that triggered the rebalance of a group."""
        found = self._events if self._is_same_turn(group_id, now, turn) else []
        self._events = []
        return found

    def find_actor_silence(
        self, group_id: str, name: MemberName, now: Now, turn: int, connections: _SilenceSource
    ) -> TriggerSilence:
        """Return the silence of the actor of a rebalance. It is empty unless the member expired."""
        found = self._events if self._is_same_turn(group_id, now, turn) else []
        for event in found:
            if (
                isinstance(event, group_event_types.MemberExpired | ConsumerMemberFenced)
                and event.member.member_id == name.member_id
            ):
                return _build_silence(event.silent_ms, event.connection_id, now, connections)
            if (
                isinstance(event, group_event_types.MembersEvicted)
                and name in event.members
                and event.silent_ms
            ):
                index = event.members.index(name)
                return _build_silence(event.silent_ms[index], event.connection_ids[index], now, connections)
            if isinstance(event, group_event_types.MemberLeft) and event.member.member_id == name.member_id:
                is_own = (event.sender_id, event.sender_host) == (name.client_id, name.client_host)
                if not is_own:
                    return TriggerSilence(
                        None, ActorSilence(last_heard_ms_ago=None, connection_closed_ms_ago=None)
                    )
        return TriggerSilence(0, ActorSilence(last_heard_ms_ago=0, connection_closed_ms_ago=None))

    def _is_same_turn(self, group_id: str, now: Now, turn: int) -> bool:
        return self._group_id == group_id and self._when == (now, turn)


def _build_silence(
    silent_ms: int, connection_id: int, now: Now, connections: _SilenceSource
) -> TriggerSilence:
    late_ms = clock.monotonic_ms() - now.monotonic_ms
    heard_ms_ago: int | None = silent_ms
    closed_ms_ago = connections.connection_closed_ms_ago(connection_id)
    if abs(late_ms) >= MAX_CLOCK_DIFFERENCE_MS:
        heard_ms_ago = connections.silent_ms(connection_id)
    elif closed_ms_ago is not None:
        # The silence ends at the time of the turn, which may be earlier than the present in a busy process.
        closed_ms_ago = max(0, closed_ms_ago - late_ms)
    return TriggerSilence(
        silent_ms, ActorSilence(last_heard_ms_ago=heard_ms_ago, connection_closed_ms_ago=closed_ms_ago)
    )


MAX_REMEMBERED_ACTIONS: Final = 100
RECENT_MS: Final = 5_000
"""The age in milliseconds up to which an operator action belongs to the next entry, unless an earlier entry has
it."""
FAULT_KIND: Final = "fault"


class ActionTarget(Protocol):
    """An open entry, to which operator actions are added."""

    group_id: str

    @property
    def is_settled(self) -> bool:
        """Whether all members have rejoined, so that only a fault can delay them."""

    def add_related_action(self, action: RelatedAction) -> None:
        """Add an operator action."""


class RecentActions:
    """The operator actions of the last seconds. Times are monotonic process time."""

    def __init__(self) -> None:
        self._actions: deque[tuple[int, OperatorAction, set[str]]] = deque(maxlen=MAX_REMEMBERED_ACTIONS)
        """The time of each action in nanoseconds, the action, and the groups with an entry that names it."""

    def add_to_entries(self, entries: Iterable[ActionTarget], action: OperatorAction) -> set[str]:
        """Add an action to the open entries that it affects, and return their groups."""
        named_by = set()
        for entry in entries:
            is_in_it = not entry.is_settled or action.kind == FAULT_KIND
            if action.group_id in (None, entry.group_id) and is_in_it:
                entry.add_related_action(build_related_action(action))
                named_by.add(entry.group_id)
        return named_by

    def add(self, action: OperatorAction, named_by: set[str], real_ns: int) -> None:
        """Remember an action, with the groups that have an entry with it."""
        self._actions.append((real_ns, action, named_by))

    def add_recent_to_entry(self, entry: ActionTarget, real_ns: int) -> None:
        """Add the recent actions that concern a newly opened entry."""
        while self._actions and real_ns - self._actions[0][0] > RECENT_MS * 1_000_000:
            self._actions.popleft()
        for _, action, named_by in self._actions:
            if action.group_id in (None, entry.group_id) and entry.group_id not in named_by:
                entry.add_related_action(build_related_action(action))
                named_by.add(entry.group_id)


def build_related_action(action: OperatorAction) -> RelatedAction:
    """Convert an operator action to the form of entries."""
    return RelatedAction(kind=action.kind, what=format_name(action.what), by=format_optional_name(action.by))
