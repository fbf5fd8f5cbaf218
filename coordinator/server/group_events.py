"""What happens in groups: counted, written to the log, and told to whoever listens."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.engine.partition import Partition
from coordinator.group.events import Event
from coordinator.group.group import NowOf
from coordinator.machine.outcome import Now
from coordinator.names import CONSUMER_OFFSETS
from coordinator.net.peer import printable
from coordinator.server.line_limit import LineLimit
from coordinator.server.log_lines import SILENT, log_event
from coordinator.server.metrics import Metrics

_LOG: Final = logging.getLogger("GroupCoordinator")

EventListener = Callable[[int, Event, int, Now], None]
"""Takes the number of an offsets partition, what happened in a group of it, the number of that, and when (group
time)."""


class GroupEvents:
    """An observer of the engine."""

    def __init__(self, metrics: Metrics, line_limit: LineLimit) -> None:
        self.listeners: list[EventListener] = []
        """Who is told of all but what every client does all the time: commits. One that fails harms nobody else."""
        self.now_of: NowOf | None = None
        """What time it is for each group, where that is not what the engine says."""
        self.turn = 0
        """The number of the first event of the turn whose events are being told."""
        self._metrics = metrics
        self._line_limit = line_limit

    def observe(self, partition: Partition[Any], events: Sequence[Event], first: int, now: Now) -> None:
        """See `Observer`."""
        if partition.name.topic != CONSUMER_OFFSETS:
            return
        self.turn = first
        for number, event in enumerate(events, first):
            self._metrics.count_event(event)
            if type(event) not in SILENT:
                log_event(partition.name, event, self._line_limit)
                self.tell(partition.number, event, number, now)

    def tell(self, partition: int, event: Event, number: int, now: Now) -> None:
        """Tells whoever listens of an event, at a time of the engine."""
        at = now if self.now_of is None else self.now_of(event.group_id, now)
        for listener in tuple(self.listeners):
            try:
                listener(partition, event, number, at)
            except Exception as problem:  # noqa: BLE001 - it has happened, whoever cannot be told of it
                name = getattr(listener, "__qualname__", repr(listener))
                group_id = printable(event.group_id)
                _LOG.error("%s failed at what happened in group %s", name, group_id, exc_info=problem)
