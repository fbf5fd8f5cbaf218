"""What the runtimes of one engine have in common."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, Final

from coordinator.engine.flusher import Flusher
from coordinator.engine.group_clock import GroupClock
from coordinator.engine.load_queue import LoadQueue
from coordinator.engine.partition import Partition
from coordinator.machine.outcome import Message, Now
from coordinator.ongoing_failures import OngoingFailures
from storage.files import Files

_LOG: Final = logging.getLogger("Engine")

Observer = Callable[[Partition[Any], Sequence[Any], int, Now], None]
"""Takes events of a partition in their order, the number of the first of them, and when they happened. Numbers
count up without a gap since the start, over all partitions and topics."""


class Shared:
    """See the top of this file."""

    __slots__ = (
        "_event_number",
        "deliver",
        "failures",
        "files",
        "flusher",
        "group_clock",
        "loop",
        "next_waiter",
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
        failures: OngoingFailures,
        queue: LoadQueue,
        deliver: Callable[[Sequence[Message]], None],
    ) -> None:
        self.loop = loop
        self.flusher = flusher
        self.files = files
        self.group_clock = group_clock
        self.failures = failures
        """What the disk refuses, whoever wanted it."""
        self.queue = queue
        self.deliver = deliver
        """Takes messages to other machines that are durable where they come from."""
        self.observers: list[Observer] = []
        self.workers: dict[str, Callable[[Any], Awaitable[object]]] = {}
        self.next_waiter: Callable[[], int] = count(1).__next__
        """Gives a number that no waiter had before."""
        self._event_number = 0

    def tell(self, partition: Partition[Any], events: Sequence[Any], now: Now) -> None:
        """Tells every observer. One that fails is told of the next events all the same, and harms nobody else."""
        first = self._event_number
        self._event_number += len(events)
        for observe in self.observers:
            try:
                observe(partition, events, first, now)
            except Exception as problem:  # noqa: BLE001 - it has happened, whoever cannot be told of it
                name = getattr(observe, "__qualname__", repr(observe))
                _LOG.error("%s failed at what happened in %s", name, partition.name, exc_info=problem)
