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
    """Called after each change of this clock: held, released, or moved ahead."""

    def at_request(self) -> Now:
        """Return the arrival time of the current request: when its bytes were read."""

    def now(self) -> Now:
        """Return the current time, for work without a request: timers, loads, messages."""

    def to_group_ms(self, process_ms: int) -> int:
        """Return the monotonic group time at a recent monotonic time of the process, both in milliseconds."""

    def delay_ms_until(self, deadline_ms: int) -> int | None:
        """Return the time in milliseconds until a monotonic group time: 0 if it has passed, None if it will not
        come before the clock is moved.
        """


class ProcessClock:
    """Group time that equals the time of the process."""

    __slots__ = ("_arrival", "on_moved")

    def __init__(self, arrival: clock.Arrival) -> None:
        """Create a clock. `arrival` is the instant at which the current request's bytes were read."""
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
        """Set a timer, replacing one of the same key."""
        self._deadlines[key] = deadline_ms
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE:
            self._rebuild()
        if self._handle is None or deadline_ms < self._armed_ms:
            self._arm(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Cancel a timer, if it is set."""
        self._deadlines.pop(key, None)

    def cancel_where(self, matches: Callable[[Hashable], bool]) -> None:
        """Cancel every timer with a matching key."""
        for key in [key for key in self._deadlines if matches(key)]:
            del self._deadlines[key]

    def close(self) -> None:
        """Cancel all timers, and detach from the clock."""
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
            # In the next iteration, so that repeated moves of the clock delay no other work.
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
                # Other requests run in between, even when thousands of sessions end at the same time.
                if clock.monotonic_ns() - started_ns >= SLICE_NS:
                    break
        finally:  # the failure of one timer must not stop the others
            self._arm_earliest()

    def _rebuild(self) -> None:
        live: list[tuple[int, int, Hashable]] = []
        for number, (key, deadline_ms) in enumerate(self._deadlines.items()):
            live.append((deadline_ms, number, key))
        heapify(live)
        self._heap[:] = live
        self._sequence = max(self._sequence, len(live))
