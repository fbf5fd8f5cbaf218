"""Timers as data: a heap of deadlines, and one call of the event loop for the earliest.

A timer that is set again, or cancelled, leaves its old heap entry behind; the entry is recognised as stale when
it surfaces. When stale entries outnumber the live ones the heap is built anew.
"""

import asyncio
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final

from coordinator import clock

SLICE_MS: Final = 5
_SPARE: Final = 1024


class Timers:
    """Deadlines in monotonic milliseconds, by key; `fire(key)` is called when one has passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[Hashable], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._deadlines: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0

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
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _is_armed(self) -> bool:
        return self._handle is not None

    def _arm(self, deadline_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ms = deadline_ms
        delay_ms = max(0, deadline_ms - clock.monotonic_ms())
        # One millisecond more: the loop's clock may run a little ahead of ours.
        self._handle = self._loop.call_later((delay_ms + 1) / 1000 if delay_ms else 0, self._run)

    def _run(self) -> None:
        self._handle = None
        started_ms = clock.monotonic_ms()
        now_ms = started_ms
        heap, deadlines = self._heap, self._deadlines
        while heap and heap[0][0] <= now_ms:
            deadline_ms, _, key = heappop(heap)
            if deadlines.get(key) != deadline_ms:
                continue
            del deadlines[key]
            self._fire(key)
            now_ms = clock.monotonic_ms()
            # Others get their turn even when thousands of sessions end in the same instant.
            if now_ms - started_ms >= SLICE_MS:
                break
        while heap and deadlines.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        if heap and (not self._is_armed() or heap[0][0] < self._armed_ms):
            self._arm(heap[0][0])

    def _rebuild(self) -> None:
        live: list[tuple[int, int, Hashable]] = []
        for number, (key, deadline_ms) in enumerate(self._deadlines.items()):
            live.append((deadline_ms, number, key))
        heapify(live)
        self._heap[:] = live
        self._sequence = max(self._sequence, len(live))
