"""What topics are called, also those that are gone since."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.control.ledger.partitions import Owned
from coordinator.group.topics_image import TopicsImage

MOST_GONE: Final = 1_000


class TopicNames:
    """By id. In: the topics now; whoever has ids looks often enough that none of them comes and goes in between."""

    def __init__(self, topics: Callable[[], TopicsImage]) -> None:
        self._topics = topics
        self._image = topics()
        self._gone: OrderedDict[bytes, str] = OrderedDict()

    def look(self) -> None:
        """Remembers those that are gone since the last time."""
        image = self._topics()
        if image is not self._image:
            for name in self._image.gone_in(image):
                self._gone[self._image.by_name[name].topic_id] = name
                if len(self._gone) > MOST_GONE:
                    self._gone.popitem(last=False)
            self._image = image

    def owned(self, partitions: Mapping[bytes, Iterable[int]]) -> Owned:
        """Partitions by the names of their topics; of one that is not known, by its id."""
        return {self._name(topic_id): frozenset(numbers) for topic_id, numbers in partitions.items()}

    def _name(self, topic_id: bytes) -> str:
        found = self._image.by_id.get(topic_id)
        return self._gone.get(topic_id, topic_id.hex()) if found is None else found.name
