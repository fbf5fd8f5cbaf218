"""What the groups of a shard know of topics: an image that is made once for each change, and shared by all shards.

Source: Kafka's CoordinatorMetadataImage.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class TopicImage(NamedTuple):
    """One topic; its id has 16 bytes."""

    name: str
    topic_id: bytes
    partitions: int


class TopicsImage:
    """All topics at one moment, by name and by id. Nobody changes an image. A later one has a higher version, as
    long as the process lives."""

    __slots__ = ("by_id", "by_name", "version")

    def __init__(self, topics: Iterable[TopicImage] = (), version: int = 0) -> None:
        self.by_name: Mapping[str, TopicImage] = MappingProxyType({topic.name: topic for topic in topics})
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType(
            {topic.topic_id: topic for topic in self.by_name.values()}
        )
        self.version = version

    def gone_in(self, later: "TopicsImage") -> tuple[str, ...]:
        """The names of the topics that are no more: another one may have the name, with another id."""
        found = later.by_name
        return tuple(
            name
            for name, topic in self.by_name.items()
            if name not in found or found[name].topic_id != topic.topic_id
        )

    def changed_in(self, later: "TopicsImage") -> tuple[str, ...]:
        """The names of the topics that were made, have grown, are gone or are others under the same name."""
        before, after = self.by_name, later.by_name
        return (
            *(name for name, topic in after.items() if before.get(name) != topic),
            *(name for name in before if name not in after),
        )

    def has_new_in(self, later: "TopicsImage") -> bool:
        """Whether a topic was made between the two."""
        return any(topic_id not in self.by_id for topic_id in later.by_id)


NO_TOPICS: Final = TopicsImage()
