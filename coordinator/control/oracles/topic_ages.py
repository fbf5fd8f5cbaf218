"""When topics last changed: a consumer that runs may learn of new partitions minutes later."""

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.topics.answer import PartitionsAdded, TopicChange, TopicCreated, TopicDeleted

METADATA_MAX_AGE_MS: Final = 300_000
"""How old a consumer's metadata may be by default, in every client (metadata.max.age.ms)."""


class TopicAges:
    """The times at which existing topics were created, or grew. Times are the process's, monotonic."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms()
        self._changed: dict[str, int] = {}
        """By topic: when it was created, or grew, in the life of this process."""

    def changed(self, changes: Sequence[TopicChange]) -> None:
        """Note changes of topics that have just happened."""
        for change in changes:
            if isinstance(change, TopicCreated | PartitionsAdded):
                self._changed[change.name] = self._now_ms()
            elif isinstance(change, TopicDeleted):
                self._changed.pop(change.name, None)

    def since_ms(self, topic: str) -> int:
        """Since when it has the partitions that it has, or since the start."""
        return self._changed.get(topic, self._started_ms)
