"""Something that many ask for at the same time, made once for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from coordinator import clock

T = TypeVar("T")


class Shared(Generic[T]):
    """Makes what is asked for, one at a time. Nobody is given what was made before it asked: who asks while one is
    being made gets the next one, together with all others that have asked by then. After each there is a rest of as
    long as it took, so that the making takes no more than half of the time, whoever asks how often."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._next: asyncio.Task[T] | None = None
        self._making = asyncio.Lock()
        self._rests_until_ns = 0

    async def get(self) -> T:
        """The next one. Raises what making it raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._make_next())
        return await asyncio.shield(self._next)

    async def _make_next(self) -> T:
        async with self._making:
            await asyncio.sleep(max(0, self._rests_until_ns - clock.monotonic_ns()) / 1e9)
            self._next = None
            started_ns = clock.monotonic_ns()
            try:
                return await self._make()
            finally:
                ended_ns = clock.monotonic_ns()
                self._rests_until_ns = 2 * ended_ns - started_ns
