"""What happens in groups, as it happens, for whoever follows it: the last events in a ring, and who waits for more.

An event becomes JSON when the first reader wants it, save one that would keep very much alive: where nobody
follows, the ring costs a reference an event. Commits are no part of it; the numbers are the engine's, so that they
have gaps where those would be. They begin anew with the process, whose mark tells its numbers from those of
another.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from msgspec import json

from coordinator import clock
from coordinator.control.stream.event_value import event_value
from coordinator.group import events
from coordinator.group.refusal_facts import GenerationDiffers
from coordinator.machine.outcome import Now

RING_BYTES: Final = 8 * 1024 * 1024
"""What the ring may take,"""
MAX_BEHIND_BYTES: Final = 1024 * 1024
"""and how much a reader may leave unread before it is cut off."""
GAP: Final = "gap"
_INSTANCE_BYTES: Final = 4
_ITEM_BYTES: Final = 1_200
"""What an event takes at most, as an object or as JSON, beside the texts of clients in it,"""
_TEXTS: Final = 3
"""each of which it may say so often."""
ENCODED_AT_ONCE_BYTES: Final = 1024 * 1024
"""What holds more is made JSON at once, which is cut."""
_MEMBER_BYTES: Final = 300
"""The same of each member in a list that the event holds, beside what it was assigned."""


class StreamEvent(NamedTuple):
    """What a reader gets: a number to go on from, the class of what happened (or "gap"), and one line of JSON."""

    seq: int
    kind: str
    data: bytes


class _Item:
    """An event in the ring."""

    __slots__ = ("_event", "_now", "_wall_ms", "data", "group_id", "kind", "seq", "size")

    def __init__(self, seq: int, event: events.Event, now: Now) -> None:
        self.seq = seq
        self.kind = type(event).__name__
        self.group_id = event.group_id
        self.data: bytes | None = None
        self._event: events.Event | None = event
        self._now = now
        self._wall_ms = clock.wall_ms()
        held = _HELD.get(type(event))
        self.size = _ITEM_BYTES + _TEXTS * _texts(event) + (0 if held is None else held(event))
        if held is not None and self.size > ENCODED_AT_ONCE_BYTES:
            self.size = _ITEM_BYTES + len(self.encoded())

    def told(self) -> StreamEvent:
        """It as a reader gets it."""
        return StreamEvent(self.seq, self.kind, self.encoded())

    def encoded(self) -> bytes:
        """It as JSON."""
        if self.data is None:
            assert self._event is not None, self.seq
            self.data = json.encode(event_value(self.seq, self._event, self._wall_ms, self._now.wall_ms))
            self._event = None
        return self.data


class Following:
    """Who follows, and what it has not read yet: an async iterator, and a context that ends it. It ends by itself
    when its reader is too far behind, and when the process stops."""

    def __init__(self, group_id: str | None, kinds: frozenset[str], readers: "list[Following]") -> None:
        self.bytes = 0
        self.is_over = False
        self.start: int | None = None
        """The number after which it begins; None where a gap says so first."""
        self._past: deque[StreamEvent | _Item] = deque()
        self._queue: deque[_Item] = deque()
        self._has_more = asyncio.Event()
        self._group_id = group_id
        self._kinds = kinds
        self._readers = readers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self in self._readers:
            self._readers.remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self.is_over:
            if self._past:
                first = self._past.popleft()
                return first if isinstance(first, StreamEvent) else first.told()
            if self._queue:
                item = self._queue.popleft()
                self.bytes -= len(item.encoded())
                return item.told()
            self._has_more.clear()
            await self._has_more.wait()
        raise StopAsyncIteration

    def wants(self, item: _Item) -> bool:
        """Whether it is about what is followed."""
        return (self._group_id is None or item.group_id == self._group_id) and (
            not self._kinds or item.kind in self._kinds
        )

    def begin(self, gap: StreamEvent | None, past: Iterable[_Item]) -> None:
        """Takes what has happened before."""
        self._past = deque([] if gap is None else [gap])
        self._past.extend(past)

    def take(self, item: _Item) -> None:
        """Takes what happens."""
        self._queue.append(item)
        self.bytes += len(item.encoded())
        self._has_more.set()

    def end(self) -> None:
        """There is nothing more for it."""
        self.is_over = True
        self._past.clear()
        self._queue.clear()
        self._has_more.set()


class Stream:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(self, ring_bytes: int = RING_BYTES, max_behind_bytes: int = MAX_BEHIND_BYTES) -> None:
        self.instance: Final = secrets.token_hex(_INSTANCE_BYTES)
        """The mark of this process."""
        self.bytes = 0
        self.cut_off = 0
        """Readers that were too slow."""
        self.last_seq = -1
        self._ring: deque[_Item] = deque()
        self._ring_bytes = ring_bytes
        self._max_behind_bytes = max_behind_bytes
        self._forgotten_seq = -1
        self._readers: list[Following] = []

    @property
    def readers(self) -> int:
        """How many follow."""
        return len(self._readers)

    def observe(self, partition: int, event: events.Event, number: int, now: Now) -> None:
        """An `EventListener`."""
        item = _Item(number, event, now)
        self.last_seq = number
        self._ring.append(item)
        self.bytes += item.size
        while self.bytes > self._ring_bytes and len(self._ring) > 1:
            oldest = self._ring.popleft()
            self.bytes -= oldest.size
            self._forgotten_seq = oldest.seq
        for reader in self._readers:
            if reader.wants(item) and not reader.is_over:
                reader.take(item)
                if reader.bytes > self._max_behind_bytes:
                    self.cut_off += 1
                    reader.end()

    def follow(
        self,
        group_id: str | None = None,
        kinds: frozenset[str] = frozenset(),
        after: int | None = None,
        instance: str | None = None,
    ) -> Following:
        """What happens from this call on, in one group or in all, of these kinds or of all; first what has happened
        `after` a number, as far as it is still there: what is not is one event "gap", whose number is that of the
        last that is gone. In: the mark of the process whose number that is, None where nobody says; a number of
        another one is such a gap, too, and all that is there follows. To be used as a context, so that it ends."""
        following = Following(group_id, kinds, self._readers)
        following.start = self.last_seq if after is None else after
        if after is not None:
            # Whoever does not say which process it was may still name a number that was not reached here.
            is_restart = after > self.last_seq if instance is None else instance != self.instance
            gap = self._gap(after, is_restart)
            following.begin(gap, filter(following.wants, self._since(-1 if is_restart else after)))
            if gap is not None:
                following.start = None
        self._readers.append(following)
        return following

    def recent(self, group_id: str | None = None, after: int = -1) -> list[StreamEvent]:
        """What is in the ring, oldest first."""
        return [item.told() for item in self._since(after) if group_id in (None, item.group_id)]

    def close(self) -> None:
        """Nobody follows any more."""
        for reader in self._readers:
            reader.end()

    def _since(self, after: int) -> list[_Item]:
        return [item for item in self._ring if item.seq > after]

    def _gap(self, after: int, is_restart: bool) -> StreamEvent | None:
        if self._forgotten_seq <= after and not is_restart:
            return None
        gone = {"after": after, "gone_up_to": self._forgotten_seq, "restarted": is_restart}
        return StreamEvent(self._forgotten_seq, GAP, json.encode(gone))


def _texts(event: events.Event) -> int:
    """About the bytes of the names in an event, which may be long."""
    name = event.member
    if name is None:
        return len(event.group_id)
    return len(event.group_id) + len(name.member_id) + len(name.client_id) + len(name.client_host)


def _of_refusal(event: events.Refused) -> int:
    # What is said of protocols is as long as the client likes.
    return 0 if event.detail is None or isinstance(event.detail, GenerationDiffers) else ENCODED_AT_ONCE_BYTES


def _of_completed(event: events.RebalanceCompleted) -> int:
    assigned = sum(len(one.assignment) + len(one.before or b"") for one in event.members)
    gone = sum(len(one.assignment) for one in event.gone)
    return assigned + gone + _MEMBER_BYTES * (len(event.members) + len(event.gone))


_HELD: Final[Mapping[type[events.Event], Callable[[Any], int]]] = {
    events.JoinRefused: _of_refusal,
    events.SyncRefused: _of_refusal,
    events.HeartbeatRefused: _of_refusal,
    events.CommitRefused: _of_refusal,
    events.MemberLeft: lambda event: _TEXTS * len(event.reason),
    events.RebalanceStarted: lambda event: _MEMBER_BYTES * len(event.members),
    events.RebalanceWaits: lambda event: _MEMBER_BYTES * len(event.awaited),
    events.MembersEvicted: lambda event: _MEMBER_BYTES * len(event.members),
    events.AssignmentReceived: lambda event: sum(map(len, event.missing + event.strangers)),
    events.RebalanceCompleted: _of_completed,
}
"""By the class of the event: about what it holds beside a name or two."""
