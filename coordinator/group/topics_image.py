"""The image of the topics that groups may consume, created once for each change and shared by all shards, and
hashes of topics.

When the hash of the topics that a group subscribes to changes, its assignment is computed again.

Source: Kafka's CoordinatorMetadataImage; KIP-1101, `Utils.computeTopicHash`, `computeGroupHash`. XXH3 of 64
bits, as a signed number.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from struct import Struct, pack
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

    def find_existing(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return those of some names that are topics, in a time that depends on the smaller of both."""
        existing = self.by_name.keys()
        if len(names) <= len(existing):
            return names & existing
        return {name for name in existing if name in names}

    def find_deleted(self, later: "TopicsImage") -> tuple[str, ...]:
        """The names of the topics that are no more: another one may have the name, with another id."""
        found = later.by_name
        return tuple(
            name
            for name, topic in self.by_name.items()
            if name not in found or found[name].topic_id != topic.topic_id
        )

    def find_changed(self, later: "TopicsImage") -> tuple[str, ...]:
        """The names of the topics that were made, have grown, are gone or are others under the same name."""
        before, after = self.by_name, later.by_name
        return (
            *(name for name, topic in after.items() if before.get(name) != topic),
            *(name for name in before if name not in after),
        )

    def has_new_topics(self, later: "TopicsImage") -> bool:
        """Whether a topic was made between the two."""
        return any(topic_id not in self.by_id for topic_id in later.by_id)


NO_TOPICS: Final = TopicsImage()


NO_TOPICS_HASH: Final = 0
"""That of a group none of whose topics exists."""
_VERSION: Final = b"\x00"
_ID: Final = Struct(">qq")
_LITTLE_ID: Final = Struct("<qq")
_NUMBER: Final = Struct("<i")
_HASH: Final = Struct("<q")


def compute_topic_hash(topic: TopicImage) -> int:
    """The hash of a topic: its id, name and number of partitions. (Kafka's also has the racks of the replicas. No
    assignor looks at racks, and only a directory of brokers with racks that is taken over has other hashes: its
    groups are assigned anew, once.)"""
    name = topic.name.encode("utf-16-le", "surrogatepass")
    parts = [_VERSION, _LITTLE_ID.pack(*_ID.unpack(topic.topic_id)), name, _NUMBER.pack(len(name) // 2)]
    parts.append(_NUMBER.pack(topic.partitions))
    parts.append(pack(f"<{topic.partitions}i", *range(topic.partitions)))
    return _xxh3(b"".join(parts))


def compute_group_hash(topics: Iterable[TopicImage]) -> int:
    """The hash of the topics that exist of those to which a group subscribes, in any order; 0 for none."""
    by_name = sorted(topics, key=lambda topic: topic.name.encode("utf-16-be", "surrogatepass"))
    if not by_name:
        return NO_TOPICS_HASH
    return _xxh3(b"".join(_HASH.pack(compute_topic_hash(topic)) for topic in by_name))


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # with the first consumer group

    value = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
