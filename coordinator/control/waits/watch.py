"""One group that somebody waits for."""

import asyncio
from collections.abc import Sequence
from typing import Final

from coordinator import clock
from coordinator.control.asking import GroupAsker
from coordinator.control.waits.committed_offsets import committed_offsets
from coordinator.control.waits.condition import Condition
from coordinator.control.waits.outlook import Outlook
from coordinator.control.waits.sight import GroupSight, Offsets

_SPACED_FROM_MS: Final = 1
"""What takes longer than this is done again after nine times as long at the earliest."""
_REST: Final = 9
_MOMENT_MS: Final = 20
_MANY_OFFSETS: Final = 1_000
_MANY_OFFSETS_REST_S: Final = 0.1
"""So long the next reading waits where there are many."""


class Waiter:
    """Somebody who waits. `met` gets the moment at which all conditions held; `joins_before` is how many JoinGroups
    had come when the wait began."""

    __slots__ = ("conditions", "joins_before", "met", "reads_offsets")

    def __init__(self, conditions: Sequence[Condition], joins_before: int) -> None:
        self.conditions = conditions
        self.met: asyncio.Future[GroupSight] = asyncio.get_running_loop().create_future()
        self.joins_before = joins_before
        self.reads_offsets = any(condition.reads_offsets for condition in conditions)

    def look(self, sight: GroupSight) -> bool:
        """Whether all conditions hold; tells the waiter, where they do."""
        if not self.met.done() and all(condition.holds(sight) for condition in self.conditions):
            self.met.set_result(sight)
        return self.met.done()

    def due_ms(self, sight: GroupSight) -> int | None:
        """In what group time it may be met without anything happening."""
        due = [condition.due_ms(sight) for condition in self.conditions]
        known = [one for one in due if one]
        return max(known) if known else None


class GroupWatch:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(self, group_id: str, partition: int, outlook: Outlook, asker: GroupAsker) -> None:
        """In: the number of the offsets partition of the group."""
        self.group_id = group_id
        self.partition = partition
        self.waiters: dict[Waiter, None] = {}
        self.readers = 0
        """How many of them want to know what is committed."""
        self._outlook = outlook
        self._asker = asker
        self._loop = asyncio.get_running_loop()
        self._offsets: Offsets | None = None
        self._is_stale = False
        self._reading: asyncio.Task[None] | None = None
        self._next_read: asyncio.Future[None] | None = None
        """Who waits for the reading that begins next."""
        self._look: asyncio.Handle | None = None
        self._not_before_ms = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wake_armed_at_ms = 0
        self._seen: GroupSight | None = None
        self._seen_ms = 0

    def add(self, waiter: Waiter) -> None:
        """One more waits."""
        self.waiters[waiter] = None
        self.readers += waiter.reads_offsets

    def remove(self, waiter: Waiter) -> None:
        """One waits no more."""
        del self.waiters[waiter]
        self.readers -= waiter.reads_offsets

    def sight(self) -> GroupSight:
        """The group now, with its offsets as they are known. Many ask at once when their time is up: where nothing
        has happened, a moment lasts a little."""
        now_ms = clock.monotonic_ms()
        if self._seen is None or now_ms - self._seen_ms > _MOMENT_MS:
            self._seen, self._seen_ms = self._outlook.sight(self.group_id, self._offsets), now_ms
        return self._seen

    # Looking

    def look_soon(self) -> None:
        """Something happened to it: looks at the end of this iteration, or when it may be looked at again."""
        self._seen = None
        if self._look is not None:
            return
        delay_ms = self._not_before_ms - clock.monotonic_ms()
        if delay_ms > 0:
            self._look = self._loop.call_later(delay_ms / 1000, self._look_now)
        else:
            self._look = self._loop.call_soon(self._look_now)

    def _look_now(self) -> None:
        self._look = self._seen = None
        began_ns = clock.monotonic_ns()
        sight = self.sight()
        due = [waiter.due_ms(sight) for waiter in list(self.waiters) if not waiter.look(sight)]
        self._wake_in(min((one for one in due if one is not None), default=None), sight)
        ended_ns = clock.monotonic_ns()
        took_ms = (ended_ns - began_ns) // 1_000_000
        if took_ms >= _SPACED_FROM_MS:
            self._not_before_ms = ended_ns // 1_000_000 + _REST * took_ms

    def _wake_in(self, due_ms: int | None, sight: GroupSight) -> None:
        """Looks again when so much group time has passed, should the clock of the group run."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if due_ms is not None:
            self._wake_armed_at_ms = sight.now.monotonic_ms
            self._wake = self._loop.call_later((due_ms + 1) / 1000, self._woken)

    def _woken(self) -> None:
        self._wake = self._seen = None
        if self.sight().now.monotonic_ms > self._wake_armed_at_ms:
            self.look_soon()
        # else its clock stands still: whoever lets it go on says so

    # Offsets

    async def read_offsets(self) -> None:
        """Waits until what is committed now was read, and is durable. Many who ask at once share one reading."""
        if self._next_read is None:
            self._next_read = self._loop.create_future()
        self.offsets_moved()
        await asyncio.shield(self._next_read)

    def offsets_moved(self) -> None:
        """Something was committed, or removed: looks when it is durable."""
        self._is_stale = True
        if self._reading is None:
            self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                readers, self._next_read = self._next_read, None
                try:
                    self._offsets = await committed_offsets(self._asker, self.group_id)
                finally:
                    if readers is not None:
                        readers.set_result(None)
                self.look_soon()
                if self._offsets is not None and len(self._offsets) > _MANY_OFFSETS:
                    await asyncio.sleep(_MANY_OFFSETS_REST_S)
        finally:
            self._reading = None

    # The end

    def give_up(self) -> None:
        """Tells everybody what is so now."""
        sight = self.sight()
        for waiter in self.waiters:
            if not waiter.met.done():
                waiter.met.set_result(sight)

    def close(self) -> None:
        """Nobody waits any more."""
        for handle in (self._look, self._wake, self._reading):
            if handle is not None:
                handle.cancel()
