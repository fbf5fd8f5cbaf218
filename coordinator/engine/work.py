"""Work that machines ask for and cannot do themselves, and how its result comes back."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from coordinator.engine.partition import Partition
from coordinator.engine.shared import Shared
from coordinator.machine.outcome import Work, WorkDone


class Works:
    """The work that is under way. `done` takes the partition, the machine that asked, and what came of it."""

    def __init__(self, shared: Shared, done: Callable[[Partition[Any], Any, WorkDone], None]) -> None:
        self._shared = shared
        self._done = done
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Ends what is under way; nobody hears of it."""
        for task in self._tasks:
            task.cancel()

    def begin(self, partition: Partition[Any], works: Sequence[Work]) -> None:
        """Begins what a machine has asked for."""
        for work in works:
            task = self._shared.loop.create_task(self._do(partition, partition.bare, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _do(self, partition: Partition[Any], machine: object, work: Work) -> None:
        try:
            done = WorkDone(work, await self._shared.workers[work.name](work.argument))
        except Exception as problem:  # noqa: BLE001 - the machine is told, and decides
            done = WorkDone(work, None, f"{type(problem).__name__}: {problem}")
        self._done(partition, machine, done)
