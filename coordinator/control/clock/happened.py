"""What happens in groups while somebody does something to them."""

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.group.events import Event
from coordinator.machine.outcome import Now
from coordinator.server.group_events import GroupEvents


class Happened:
    """Events in their order, and the number of the last; of one group, or of all."""

    def __init__(self, group_id: str | None) -> None:
        self.events: list[Event] = []
        self.last_seq: int | None = None
        self._group_id = group_id

    def take(self, partition: int, event: Event, number: int, now: Now) -> None:
        """See `EventListener`."""
        if self._group_id in (None, event.group_id):
            self.events.append(event)
            self.last_seq = number


@contextmanager
def happening(source: GroupEvents, group_id: str | None) -> Iterator[Happened]:
    """What happens meanwhile."""
    happened = Happened(group_id)
    source.listeners.append(happened.take)
    try:
        yield happened
    finally:
        source.listeners.remove(happened.take)
