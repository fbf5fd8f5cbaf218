"""Limits on the time that requests for data may take from the event loop.

`CoalescedCall` computes a result once for all concurrent callers. `YieldingBudget` lets other tasks run between
the steps of a long computation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from coordinator.core import clock
from coordinator.core.time_budget import SLICE_NS

T = TypeVar("T")


class CoalescedCall(Generic[T]):
    """Makes what is asked for, one at a time. Nobody is given what was made before it asked: who asks while one is
    being made gets the next one, together with all others that have asked by then. After each there is a rest of as
    long as it took, so that the making takes no more than half of the time, whoever asks how often."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._next_call: asyncio.Task[T] | None = None
        self._lock = asyncio.Lock()
        self._not_before_ns = 0

    async def get_result(self) -> T:
        """The next one. Raises what making it raises."""
        if self._next_call is None:
            self._next_call = asyncio.get_running_loop().create_task(self._call_next())
        return await asyncio.shield(self._next_call)

    async def _call_next(self) -> T:
        async with self._lock:
            await asyncio.sleep(max(0, self._not_before_ns - clock.monotonic_ns()) / 1e9)
            self._next_call = None
            started_ns = clock.monotonic_ns()
            try:
                return await self._call()
            finally:
                ended_ns = clock.monotonic_ns()
                self._not_before_ns = 2 * ended_ns - started_ns


class YieldingBudget:
    """One piece of long work: whoever does it asks between its steps."""

    def __init__(self) -> None:
        self._started_ns = clock.monotonic_ns()

    async def checkpoint(self) -> None:
        """Lets others go first if this has gone on for as long as one may."""
        if clock.monotonic_ns() - self._started_ns > SLICE_NS:
            await asyncio.sleep(0)
            self._started_ns = clock.monotonic_ns()
