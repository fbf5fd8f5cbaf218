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
    """All topics at one moment, by name. Nobody changes an image."""

    __slots__ = ("by_name",)

    def __init__(self, topics: Iterable[TopicImage] = ()) -> None:
        self.by_name: Mapping[str, TopicImage] = MappingProxyType({topic.name: topic for topic in topics})

    def gone_in(self, later: "TopicsImage") -> tuple[str, ...]:
        """The names of the topics that are no more: another one may have the name, with another id."""
        found = later.by_name
        return tuple(
            name
            for name, topic in self.by_name.items()
            if name not in found or found[name].topic_id != topic.topic_id
        )


NO_TOPICS: Final = TopicsImage()
