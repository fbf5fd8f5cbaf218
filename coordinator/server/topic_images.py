"""The topics of the data plane, as images that groups take."""

from typing import Final

from coordinator.group.requests import TopicsChanged
from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.topics.answer import PartitionsAdded, TopicChange, TopicCreated, TopicDeleted
from coordinator.topics.catalogue import Catalogue

SHOWN: Final[tuple[type[TopicChange], ...]] = (TopicCreated, TopicDeleted, PartitionsAdded)
"""Changes after which an image is another one."""


class TopicImages:
    """The image that holds now. One for all partitions of the groups, made anew after each change."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._current = self._made(0)

    def current(self) -> TopicsImage:
        """The topics now."""
        return self._current

    def renew(self) -> TopicsChanged:
        """Looks at the topics again: what groups are told of the difference."""
        before, self._current = self._current, self._made(self._current.version)
        return TopicsChanged(self._current, before.gone_in(self._current))

    def _made(self, version: int) -> TopicsImage:
        topics = [TopicImage(topic.name, topic.topic_id, len(topic.partitions)) for topic in self._catalogue]
        return TopicsImage(topics, version + 1)
