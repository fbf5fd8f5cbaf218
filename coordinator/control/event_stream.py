"""The event stream: group events as JSON, the latest events in a ring buffer, and subscriptions for new ones.

The ring keeps a reference to each event and encodes the event for its first reader. It encodes an event at
once if the event would keep much memory alive. Commits are not part of the stream. Event numbers are the
engine's, so commits leave gaps in them. They begin again with the process; the mark in "5f3a9c1e.431"
identifies the process that counted.

The JSON has the fields of an event and its log message. It omits bytes, and all but the first items of a long
list; the ledger has the assignments.
"""

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from msgspec import json, structs

from coordinator.broker.group_event_log import format_event
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.core.wire_name import get_wire_name
from coordinator.group import group_event_types
from coordinator.group.event_details import AwaitedMember, GenerationDiffers, MemberName, Trigger
from coordinator.group.member_text import format_member_address, printable_name

RING_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of the events in the ring, in bytes."""
MAX_BEHIND_BYTES: Final = 1024 * 1024
"""The maximum size of the unread events of a reader, in bytes. A reader that exceeds it is disconnected."""
GAP: Final = "gap"
_INSTANCE_BYTES: Final = 4
_ITEM_BYTES: Final = 1_200
"""The maximum size of an event as an object or as JSON, in bytes, without the texts of clients."""
_TEXT_COPIES: Final = 3
"""The maximum number of copies of each client text in an event."""
ENCODED_AT_ONCE_BYTES: Final = 1024 * 1024
"""The size in bytes from which an event is encoded at once. The JSON is shorter because long lists are cut."""
_MEMBER_BYTES: Final = 300
"""Largest size of each member in a list of an event, without its assignment and the texts of clients."""


class StreamEvent(NamedTuple):
    """An event for a reader: the number to resume from, the class of the event (or "gap"), and one line of JSON."""

    seq: int
    kind: str
    data: bytes


class _RingItem:
    """An event in the ring."""

    __slots__ = ("_class", "_event", "_now", "_wall_ms", "data", "group_id", "seq", "size")

    def __init__(self, seq: int, event: group_event_types.GroupEvent, now: Now) -> None:
        self.seq = seq
        self._class = type(event)
        self.group_id = event.group_id
        self.data: bytes | None = None
        self._event: group_event_types.GroupEvent | None = event
        self._now = now
        self._wall_ms = clock.wall_ms()
        held = _HELD_BYTES.get(type(event))
        self.size = (
            _ITEM_BYTES + _TEXT_COPIES * _estimate_name_bytes(event) + (0 if held is None else held(event))
        )
        if held is not None and self.size > ENCODED_AT_ONCE_BYTES:
            self.size = _ITEM_BYTES + len(self.encode())

    @property
    def kind(self) -> str:
        """The wire name of the event."""
        return get_wire_name(self._class)

    def to_stream_event(self) -> StreamEvent:
        """Return the event in the form for readers."""
        return StreamEvent(self.seq, self.kind, self.encode())

    def encode(self) -> bytes:
        """Encode the event as JSON, once."""
        if self.data is None:
            assert self._event is not None, self.seq
            self.data = json.encode(
                build_event_value(self.seq, self._event, self._wall_ms, self._now.wall_ms)
            )
            self._event = None
        return self.data


class EventSubscription:
    """A reader of the event stream with its unread events.

    It is an async iterator, and a context manager that ends the subscription. The stream ends it too: when
    the reader is too far behind, and when the process stops.
    """

    def __init__(
        self, group_id: str | None, kinds: frozenset[str], subscriptions: "list[EventSubscription]"
    ) -> None:
        self.bytes = 0
        self.is_closed = False
        self.start: int | None = None
        """The event number after which the subscription begins; None if its first event is a gap."""
        self._past: deque[StreamEvent | _RingItem] = deque()
        self._queue: deque[_RingItem] = deque()
        self._has_more = asyncio.Event()
        self._group_id = group_id
        self._kinds = kinds
        self._subscriptions = subscriptions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self in self._subscriptions:
            self._subscriptions.remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self.is_closed:
            if self._past:
                first = self._past.popleft()
                return first if isinstance(first, StreamEvent) else first.to_stream_event()
            if self._queue:
                item = self._queue.popleft()
                self.bytes -= len(item.encode())
                return item.to_stream_event()
            self._has_more.clear()
            await self._has_more.wait()
        raise StopAsyncIteration

    def accepts_item(self, item: _RingItem) -> bool:
        """Return whether the subscription includes an item."""
        return (self._group_id is None or item.group_id == self._group_id) and (
            not self._kinds or item.kind in self._kinds
        )

    def add_past(self, gap: StreamEvent | None, past: Iterable[_RingItem]) -> None:
        """Queue events from before the subscription, after an optional gap."""
        self._past = deque([] if gap is None else [gap])
        self._past.extend(past)

    def add_item(self, item: _RingItem) -> None:
        """Queue a new event."""
        self._queue.append(item)
        self.bytes += len(item.encode())
        self._has_more.set()

    def close(self) -> None:
        """End the subscription and discard its events."""
        self.is_closed = True
        self._past.clear()
        self._queue.clear()
        self._has_more.set()


class EventStream:
    """The event stream of a server. All methods belong to the event loop's thread."""

    def __init__(self, ring_bytes: int = RING_BYTES, max_behind_bytes: int = MAX_BEHIND_BYTES) -> None:
        self.instance: Final = secrets.token_hex(_INSTANCE_BYTES)
        """The mark of this process."""
        self.bytes = 0
        self.cut_off_count = 0
        """The number of readers that were disconnected because they were too slow."""
        self.last_seq = -1
        self._ring: deque[_RingItem] = deque()
        self._ring_bytes = ring_bytes
        self._max_behind_bytes = max_behind_bytes
        self._forgotten_seq = -1
        self._subscriptions: list[EventSubscription] = []

    @property
    def reader_count(self) -> int:
        """Return the number of open subscriptions."""
        return len(self._subscriptions)

    def on_event(self, partition: int, event: group_event_types.GroupEvent, number: int, now: Now) -> None:
        """Add an event to the stream. This is an `EventListener`."""
        item = _RingItem(number, event, now)
        self.last_seq = number
        self._ring.append(item)
        self.bytes += item.size
        while self.bytes > self._ring_bytes and len(self._ring) > 1:
            oldest = self._ring.popleft()
            self.bytes -= oldest.size
            self._forgotten_seq = oldest.seq
        for reader in self._subscriptions:
            if reader.accepts_item(item) and not reader.is_closed:
                reader.add_item(item)
                if reader.bytes > self._max_behind_bytes:
                    self.cut_off_count += 1
                    reader.close()

    def subscribe(
        self,
        group_id: str | None = None,
        kinds: frozenset[str] = frozenset(),
        after: int | None = None,
        instance: str | None = None,
    ) -> EventSubscription:
        """Subscribe to events, to be used as a context manager.

        Events that are no longer available are reported as one event `gap`, with the number of the last lost
        event.

        Args:
            group_id: The group, or None for all groups.
            kinds: The event kinds. Empty means all kinds.
            after: The number of the last known event, or None for new events only.
            instance: The mark of the process of that number, or None if unknown. The mark of another process
                results in a gap, followed by all available events.
        """
        subscription = EventSubscription(group_id, kinds, self._subscriptions)
        subscription.start = self.last_seq if after is None else after
        if after is not None:
            # Without a mark, only a number beyond the last event shows that it is from another process.
            is_restart = after > self.last_seq if instance is None else instance != self.instance
            gap = self._build_gap(after, is_restart)
            subscription.add_past(
                gap, filter(subscription.accepts_item, self._list_after(-1 if is_restart else after))
            )
            if gap is not None:
                subscription.start = None
        self._subscriptions.append(subscription)
        return subscription

    def list_recent(self, group_id: str | None = None, after: int = -1) -> list[StreamEvent]:
        """Return the events of a group (None: of all groups) in the ring with a greater number, oldest first."""
        return [
            item.to_stream_event() for item in self._list_after(after) if group_id in (None, item.group_id)
        ]

    def close(self) -> None:
        """End the subscriptions of all readers."""
        for reader in self._subscriptions:
            reader.close()

    def _list_after(self, after: int) -> list[_RingItem]:
        return [item for item in self._ring if item.seq > after]

    def _build_gap(self, after: int, is_restart: bool) -> StreamEvent | None:
        if self._forgotten_seq <= after and not is_restart:
            return None
        gone = {"after": after, "gone_up_to": self._forgotten_seq, "restarted": is_restart}
        return StreamEvent(self._forgotten_seq, GAP, json.encode(gone))


def _estimate_name_bytes(event: group_event_types.GroupEvent) -> int:
    """Estimate the size of the names in an event, in bytes. Names may be long."""
    name = event.member
    if name is None:
        return len(event.group_id)
    return len(event.group_id) + len(name.member_id) + len(name.client_id) + len(name.client_host)


def _estimate_refusal_bytes(event: group_event_types.RequestRefused) -> int:
    # The protocols of a refused request can have any length.
    return 0 if event.detail is None or isinstance(event.detail, GenerationDiffers) else ENCODED_AT_ONCE_BYTES


def _estimate_completion_bytes(event: group_event_types.RebalanceCompleted) -> int:
    assigned = sum(len(one.assignment) + len(one.before or b"") for one in event.members)
    gone = sum(len(one.assignment) for one in event.gone)
    return assigned + gone + _MEMBER_BYTES * (len(event.members) + len(event.gone))


_HELD_BYTES: Final[Mapping[type[group_event_types.GroupEvent], Callable[[Any], int]]] = {
    group_event_types.JoinRefused: _estimate_refusal_bytes,
    group_event_types.SyncRefused: _estimate_refusal_bytes,
    group_event_types.HeartbeatRefused: _estimate_refusal_bytes,
    group_event_types.CommitRefused: _estimate_refusal_bytes,
    group_event_types.MemberLeft: lambda event: _TEXT_COPIES * len(event.reason),
    group_event_types.RebalanceStarted: lambda event: _MEMBER_BYTES * len(event.members),
    group_event_types.RebalanceWaits: lambda event: _MEMBER_BYTES * len(event.awaited),
    group_event_types.MembersEvicted: lambda event: _MEMBER_BYTES * len(event.members),
    group_event_types.AssignmentReceived: lambda event: sum(map(len, event.missing + event.strangers)),
    group_event_types.RebalanceCompleted: _estimate_completion_bytes,
}
"""The typical size of an event by its class, without names."""

_EVENT_NUMBER: Final = re.compile(r"(?:([0-9a-f]{1,32})\.)?(-1|[0-9]{1,18})")


class EventNumber(NamedTuple):
    """An event number, and the mark of its process, or None if unknown."""

    number: int
    mark: str | None


def parse_event_number(text: str) -> EventNumber | None:
    """Parse 431, or "5f3a9c1e.431" with the mark of a process. Return None for other texts."""
    found = _EVENT_NUMBER.fullmatch(text.strip())
    return None if found is None else EventNumber(int(found[2]), found[1])


def resolve_event_number(stream: EventStream, after: int | str, last: int | None = None) -> int:
    """Return the event number of `after`.

    Args:
        stream: The event stream of this process.
        after: A number, or a number with a mark.
        last: The last valid number, or None for the number of the last event.

    Raises:
        Problem: bad-request for text that is not an event number; restarted for a number of another process.
            Without a mark, a number counts as one of another process only while it is larger than `last`.
    """
    found = parse_event_number(str(after))
    if found is None:
        detail = f'after: {printable(str(after))!r} is not an event: write 431, or "{stream.instance}.431".'
        raise Problem(ProblemKind.BAD_REQUEST, "after is invalid", detail, {"pointer": "/after"})
    if last is None:
        last = stream.last_seq
    if (found.mark is None and found.number > last) or found.mark not in (None, stream.instance):
        detail = (
            f"after: {printable(str(after))} is from before a restart of the daemon or a reset of the namespace. "
            f"Event numbers then started again with the mark {stream.instance}; the last one is {last}. "
            "Start again from -1."
        )
        fields = {"mark": stream.instance, "seq": last}
        raise Problem(ProblemKind.RESTARTED, "event numbers started again", detail, fields)
    return found.number


MAX_LISTED: Final = 20
MAX_TEXT: Final = 1_000

_SENTENCES: Final[Mapping[type[group_event_types.GroupEvent], str]] = {
    group_event_types.MemberRejoined: "{member} rejoins group {group}.",
    group_event_types.MemberToldToRejoin: "{member} gets a response that it must rejoin group {group}.",
    group_event_types.SyncReceived: "{member} requests its assignment in group {group}.",
    group_event_types.AssignmentApplied: "Group {group} is Stable in generation {generation}.",
    group_event_types.AssignmentFetched: "{member} fetched its assignment in generation {generation} of "
    "group {group}.",
}
_OMITTED_FIELDS: Final = frozenset({"group_id", "generation_id", "member"})


def build_event_value(
    seq: int, event: group_event_types.GroupEvent, at_ms: int, group_time_ms: int
) -> dict[str, object]:
    """Return an event as JSON values. `at_ms` is Unix time, `group_time_ms` the time of the group's clock."""
    value: dict[str, object] = {
        "seq": seq,
        "kind": get_wire_name(type(event)),
        "group_id": event.group_id,
        "generation_id": event.generation_id,
        "at_ms": at_ms,
        "group_time_ms": group_time_ms,
        "line": _format_line(event),
        "member": None if event.member is None else _member_value(event.member),
    }
    for name in event.__struct_fields__:
        if name not in _OMITTED_FIELDS:
            field = getattr(event, name)
            if _is_included(field):
                value[name] = _to_json_value(field)
    return value


def _format_line(event: group_event_types.GroupEvent) -> str:
    if isinstance(event, group_event_types.RebalanceStarted):
        event = structs.replace(event, members=())  # its line names none of them
    found = format_event(event)
    if found is not None:
        return found[1]
    sentence = _SENTENCES.get(type(event), "{kind} in group {group}.")
    member = "" if event.member is None else format_member_address(printable_name(event.member))
    group = printable(event.group_id)
    return sentence.format(
        member=member, group=group, generation=event.generation_id, kind=get_wire_name(type(event))
    )


def _is_included(field: object) -> bool:
    if isinstance(field, bytes):
        return False
    if isinstance(field, tuple) and not hasattr(field, "_fields"):
        return all(isinstance(part, (str, int, MemberName, AwaitedMember)) for part in field[:1])
    return True


def _to_json_value(field: object) -> object:
    for kind, convert in _CONVERTERS.items():
        if isinstance(field, kind):
            return convert(field)
    return field


def _member_value(name: MemberName) -> dict[str, object]:
    instance_id = name.group_instance_id
    return {
        "member_id": printable(name.member_id, MAX_TEXT),
        "group_instance_id": None if instance_id is None else printable(instance_id, MAX_TEXT),
        "client_id": printable(name.client_id, MAX_TEXT),
        "client_host": name.client_host,
    }


def _trigger_value(trigger: Trigger) -> dict[str, object]:
    return {
        "cause": trigger.cause.value,
        "reason": printable(trigger.reason, MAX_TEXT),
        "actor": None if trigger.actor is None else _member_value(trigger.actor),
        "client_reason": printable(trigger.client_reason, MAX_TEXT),
    }


def _awaited_value(one: AwaitedMember) -> dict[str, object]:
    return {
        "member": _member_value(one.member),
        "request": one.request.value,
        "silent_ms": one.silent_ms,
        "session_left_ms": one.session_left_ms,
        "left_ms": one.left_ms,
    }


def _tuple_value(parts: tuple[Any, ...]) -> object:
    names = getattr(parts, "_fields", None)
    if names is None:
        return [_to_json_value(part) for part in parts[:MAX_LISTED]]
    return {name: _to_json_value(part) for name, part in zip(names, parts, strict=True)}


_CONVERTERS: Final[Mapping[type[Any], Callable[[Any], object]]] = {
    MemberName: _member_value,
    Trigger: _trigger_value,
    AwaitedMember: _awaited_value,
    tuple: _tuple_value,
    Enum: lambda word: word.value if isinstance(word.value, str) else word.name,
    str: lambda text: printable(text, MAX_TEXT),
}
"""The converters to JSON values by type; the first matching one applies. Numbers and null need no conversion."""
