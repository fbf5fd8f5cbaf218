"""Since when topics are as they are: a consumer that runs may learn of new partitions minutes later."""

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.topics.answer import PartitionsAdded, TopicChange, TopicCreated

METADATA_MAX_AGE_MS: Final = 300_000
"""How old a consumer's metadata may be by default, in every client (metadata.max.age.ms)."""


class TopicAges:
    """When topics were made, or have grown. Times are the process's, monotonic. What is older than a consumer's
    metadata may be is forgotten: everybody knows it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms()
        self._changed: dict[str, int] = {}
        """By topic, the last change last."""

    def changed(self, changes: Sequence[TopicChange]) -> None:
        """What became of topics just now."""
        now_ms = self._now_ms()
        for change in changes:
            if isinstance(change, TopicCreated | PartitionsAdded):
                self._changed.pop(change.name, None)
                self._changed[change.name] = now_ms
        while self._changed:
            topic, changed_ms = next(iter(self._changed.items()))
            if now_ms - changed_ms <= METADATA_MAX_AGE_MS:
                return
            del self._changed[topic]

    def since_ms(self, topic: str) -> int:
        """Since when it has the partitions that it has, or since the start."""
        return self._changed.get(topic, self._started_ms)
