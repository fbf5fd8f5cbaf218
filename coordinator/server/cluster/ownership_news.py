"""What became of partitions, for whoever keeps it: the control room, which is made when it is first needed. What
happened shortly before that is told to it then."""

from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator import clock
from storage.topic_partition import TopicPartition

KEPT_S: Final = 5
"""What is older explains nothing that happens from now on."""
_MOST_KEPT: Final = 1000

Listener = Callable[[TopicPartition, str], None]
"""Takes a partition, and what became of it."""


class OwnershipNews:
    """All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._recent: deque[tuple[int, TopicPartition, str]] = deque(maxlen=_MOST_KEPT)

    def tell(self, partition: TopicPartition, what: str) -> None:
        """It has just happened."""
        self._recent.append((clock.monotonic_ns(), partition, what))
        for listener in self._listeners:
            listener(partition, what)

    def attach(self, listener: Listener) -> None:
        """Tells somebody from now on, and what was told shortly before."""
        since_ns = clock.monotonic_ns() - KEPT_S * 1_000_000_000
        for told_ns, partition, what in self._recent:
            if told_ns >= since_ns:
                listener(partition, what)
        self._listeners.append(listener)
