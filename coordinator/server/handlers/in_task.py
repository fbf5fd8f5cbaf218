"""An answer that is found in a task of its own: it waits for a disk, or for a thread that has much to look at. As
in Kafka, nothing else of its connection is processed meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from coordinator.answers import PARKED
from coordinator.net.caller import Caller

_AT_ONCE: Final = 500
"""So much, or less, is looked at on the loop."""

T = TypeVar("T")


class InTask:
    """The tasks of one handler."""

    def __init__(self) -> None:
        self._underway: set[asyncio.Task[None]] = set()

    def begin(self, caller: Caller, answer: Awaitable[object]) -> object:
        """What a handler returns whose answer comes of this."""
        slot = caller.answer_later(parks=True)
        slot.ends = True

        async def fill() -> None:
            try:
                slot.fill(await answer)
            except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
                slot.owner.has_failed(problem)

        task = asyncio.create_task(fill())
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        return PARKED


async def apart(work: Callable[[], T], size: int) -> T:
    """Does work that looks at many things away from the loop. In: at how many."""
    return work() if size <= _AT_ONCE else await asyncio.get_running_loop().run_in_executor(None, work)
