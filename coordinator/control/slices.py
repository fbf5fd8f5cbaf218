"""Long work in short pieces, with everybody else's in between."""

import asyncio

from coordinator import clock
from coordinator.net.run_queue import SLICE_NS


class Slices:
    """One piece of long work: whoever does it asks between its steps."""

    def __init__(self) -> None:
        self._started_ns = clock.monotonic_ns()

    async def rest(self) -> None:
        """Lets others go first if this has gone on for as long as one may."""
        if clock.monotonic_ns() - self._started_ns > SLICE_NS:
            await asyncio.sleep(0)
            self._started_ns = clock.monotonic_ns()
