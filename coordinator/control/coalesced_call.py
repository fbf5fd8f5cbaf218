"""A call that computes one result for all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from coordinator.core import clock

T = TypeVar("T")


class CoalescedCall(Generic[T]):
    """Runs one call at a time and shares its result between the callers that waited when it started.

    A caller never gets the result of a call that started before it came: it waits for the next call, together with
    all callers that come before that one starts. After each call there is a pause as long as the call took, so the
    calls take at most half of the time, however often clients request the result. All methods belong to the thread
    of the event loop.
    """

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._next_call: asyncio.Task[T] | None = None
        self._lock = asyncio.Lock()
        self._not_before_ns = 0

    async def get_result(self) -> T:
        """Return the result of the next call. An exception of the call is raised for each of its callers."""
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
