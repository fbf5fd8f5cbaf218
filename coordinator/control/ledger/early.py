"""What is told of a rebalance before it is told that it begins: who left, expired, joined or was sent back, in the
same turn of the same group."""

from typing import Final, NamedTuple, Protocol

from coordinator import clock
from coordinator.control.ledger.entry import ActorSeen
from coordinator.group import events
from coordinator.group.consumer.events import ConsumerMemberFenced
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Now

SAME_TIME_MS: Final = 1_000
"""A group whose time differs from the process's by more than that has had another: what it says of silence does not
hold for the process."""


class Seen(NamedTuple):
    """How long nothing had been heard of an actor."""

    last_heard_ms_ago: int | None
    real: ActorSeen


class _Connections(Protocol):
    def silent_ms(self, connection_id: int) -> int | None: ...

    def connection_closed_ms_ago(self, connection_id: int) -> int | None: ...


class Early:
    """See the top of this file."""

    def __init__(self) -> None:
        self._group_id = ""
        self._when: tuple[Now, int] | None = None
        """The time of the group, and the turn: a clock that is frozen has many turns at one time."""
        self._events: list[events.Event] = []

    def add(self, event: events.Event, now: Now, turn: int) -> None:
        """Keeps an event until another group has one, or another turn."""
        if not self._is_of(event.group_id, now, turn):
            self._group_id, self._when, self._events = event.group_id, (now, turn), []
        self._events.append(event)

    def take(self, group_id: str, now: Now, turn: int) -> list[events.Event]:
        """Those of a group that begins to rebalance."""
        found = self._events if self._is_of(group_id, now, turn) else []
        self._events = []
        return found

    def actor_seen(
        self, group_id: str, name: MemberName, now: Now, turn: int, connections: _Connections
    ) -> Seen:
        """How long nothing had been heard of whoever begins a rebalance: nothing, unless it was given up."""
        found = self._events if self._is_of(group_id, now, turn) else []
        for event in found:
            if (
                isinstance(event, events.MemberExpired | ConsumerMemberFenced)
                and event.member.member_id == name.member_id
            ):
                return _silent(event.silent_ms, event.connection_id, now, connections)
            if isinstance(event, events.MembersEvicted) and name in event.members and event.silent_ms:
                index = event.members.index(name)
                return _silent(event.silent_ms[index], event.connection_ids[index], now, connections)
            if isinstance(event, events.MemberLeft) and event.member.member_id == name.member_id:
                is_own = (event.sender_id, event.sender_host) == (name.client_id, name.client_host)
                if not is_own:
                    return Seen(None, ActorSeen(last_heard_ms_ago=None, connection_closed_ms_ago=None))
        return Seen(0, ActorSeen(last_heard_ms_ago=0, connection_closed_ms_ago=None))

    def _is_of(self, group_id: str, now: Now, turn: int) -> bool:
        return self._group_id == group_id and self._when == (now, turn)


def _silent(silent_ms: int, connection_id: int, now: Now, connections: _Connections) -> Seen:
    late_ms = clock.monotonic_ms() - now.monotonic_ms
    heard_ms_ago: int | None = silent_ms
    closed_ms_ago = connections.connection_closed_ms_ago(connection_id)
    if abs(late_ms) >= SAME_TIME_MS:
        heard_ms_ago = connections.silent_ms(connection_id)
    elif closed_ms_ago is not None:
        # The silence ends with the instant of the turn, which a busy process is past by now.
        closed_ms_ago = max(0, closed_ms_ago - late_ms)
    return Seen(silent_ms, ActorSeen(last_heard_ms_ago=heard_ms_ago, connection_closed_ms_ago=closed_ms_ago))
