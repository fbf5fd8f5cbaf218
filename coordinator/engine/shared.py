"""What the runtimes of one engine have in common."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from coordinator.engine.flusher import Flusher
from coordinator.engine.group_clock import GroupClock
from coordinator.engine.load_queue import LoadQueue
from coordinator.engine.partition import Partition
from coordinator.machine.outcome import Message, Now
from storage.files import Files

Observer = Callable[[Partition[Any], Sequence[Any], int, Now], None]
"""Takes events of a partition in their order, the number of the first of them, and when they happened. Numbers
count up without a gap since the start, over all partitions and topics."""


class Shared:
    """See the top of this file."""

    __slots__ = (
        "_event_number",
        "_waiter",
        "deliver",
        "files",
        "flusher",
        "group_clock",
        "loop",
        "observers",
        "queue",
        "workers",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        flusher: Flusher,
        files: Files,
        group_clock: GroupClock,
        queue: LoadQueue,
        deliver: Callable[[Sequence[Message]], None],
    ) -> None:
        self.loop = loop
        self.flusher = flusher
        self.files = files
        self.group_clock = group_clock
        self.queue = queue
        self.deliver = deliver
        """Takes messages to other machines that are durable where they come from."""
        self.observers: list[Observer] = []
        self.workers: dict[str, Callable[[Any], Awaitable[object]]] = {}
        self._waiter = 0
        self._event_number = 0

    def next_waiter(self) -> int:
        """A number that no waiter had before."""
        self._waiter += 1
        return self._waiter

    def tell(self, partition: Partition[Any], events: Sequence[Any], now: Now) -> None:
        """Tells every observer."""
        first = self._event_number
        self._event_number += len(events)
        for observe in self.observers:
            observe(partition, events, first, now)
