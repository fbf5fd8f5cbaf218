"""Timers of pure machines, and the group clock by which they fire."""

import asyncio
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.core.time_budget import SLICE_NS

_SPARE: Final = 1024


class GroupClock(Protocol):
    """The clock by which the timers of machines fire. Its time never runs backwards."""

    on_moved: list[Callable[[], None]]
    """Called, each, whenever this clock goes on otherwise than before: held, let go, moved ahead."""

    def at_request(self) -> Now:
        """The time of the request at hand: when its bytes were read."""

    def now(self) -> Now:
        """The time now, for what nobody asked for: timers, loads, messages."""

    def to_group_ms(self, process_ms: int) -> int:
        """The monotonic group time, in milliseconds, at a monotonic time of the process that has just been read."""

    def delay_ms_until(self, deadline_ms: int) -> int | None:
        """How long from now on the process has to wait for a monotonic group time, in milliseconds: 0 when it is
        there, None when it will not come before the clock is moved."""


class ProcessClock:
    """Group time that is the process's."""

    __slots__ = ("_arrival", "on_moved")

    def __init__(self, arrival: clock.Arrival) -> None:
        """In: the instant at which the bytes at hand were read."""
        self._arrival = arrival
        self.on_moved: list[Callable[[], None]] = []

    def at_request(self) -> Now:
        return self._arrival.now

    def now(self) -> Now:
        return clock.now()

    def to_group_ms(self, process_ms: int) -> int:
        return process_ms

    def delay_ms_until(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - clock.monotonic_ms())


class Timers:
    """Deadlines in monotonic milliseconds of group time, by key. Calls `fire(key)` when one has passed.

    Timers fire in the order of their deadlines, in a slice of `SLICE_NS` in each iteration of the loop. They do not
    wait in the run queue: sessions would end later the more requests wait, although a session timeout is a promise
    to the members that remain. Between two slices requests may set and cancel timers.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, group_clock: GroupClock, fire: Callable[[Hashable], None]
    ) -> None:
        self._loop = loop
        self._clock = group_clock
        self._fire = fire
        self._deadlines: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0
        self._handle: asyncio.Handle | None = None
        self._armed_ms = 0
        group_clock.on_moved.append(self._on_clock_moved)

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, deadline_ms: int) -> None:
        """Arms a timer, in place of one of the same key."""
        self._deadlines[key] = deadline_ms
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE:
            self._rebuild()
        if self._handle is None or deadline_ms < self._armed_ms:
            self._arm(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Disarms a timer; one that is not armed stays so."""
        self._deadlines.pop(key, None)

    def cancel_where(self, matches: Callable[[Hashable], bool]) -> None:
        """Disarms every timer whose key matches."""
        for key in [key for key in self._deadlines if matches(key)]:
            del self._deadlines[key]

    def close(self) -> None:
        """Disarms everything."""
        self._deadlines.clear()
        self._heap.clear()
        self._disarm()
        if self._on_clock_moved in self._clock.on_moved:
            self._clock.on_moved.remove(self._on_clock_moved)

    def _on_clock_moved(self) -> None:
        self._disarm()
        self._arm_earliest()

    def _is_armed(self) -> bool:
        return self._handle is not None

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, deadline_ms: int) -> None:
        self._disarm()
        self._armed_ms = deadline_ms
        delay_ms = self._clock.delay_ms_until(deadline_ms)
        if delay_ms == 0:
            # In the next iteration, so that a clock that is moved again and again puts nothing off.
            self._handle = self._loop.call_soon(self._run)
        elif delay_ms is not None:
            # One millisecond more: the loop's clock may run a little ahead of ours.
            self._handle = self._loop.call_later((delay_ms + 1) / 1000, self._run)

    def _arm_earliest(self) -> None:
        heap, deadlines = self._heap, self._deadlines
        while heap and deadlines.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        if heap and (not self._is_armed() or heap[0][0] < self._armed_ms):
            self._arm(heap[0][0])

    def _run(self) -> None:
        self._handle = None
        started_ns = clock.monotonic_ns()
        heap, deadlines = self._heap, self._deadlines
        try:
            while heap and self._clock.delay_ms_until(heap[0][0]) == 0:
                deadline_ms, _, key = heappop(heap)
                if deadlines.get(key) != deadline_ms:
                    continue
                del deadlines[key]
                self._fire(key)
                # Requests are served in between even when thousands of sessions end at the same time.
                if clock.monotonic_ns() - started_ns >= SLICE_NS:
                    break
        finally:  # a timer that fails keeps no other from firing
            self._arm_earliest()

    def _rebuild(self) -> None:
        live: list[tuple[int, int, Hashable]] = []
        for number, (key, deadline_ms) in enumerate(self._deadlines.items()):
            live.append((deadline_ms, number, key))
        heapify(live)
        self._heap[:] = live
        self._sequence = max(self._sequence, len(live))
