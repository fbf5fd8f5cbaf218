"""The image of the topics that groups may consume, and hashes of topics.

An image is created once for each change and shared by all shards. When the hash of a group's subscribed topics
changes, its assignment is computed again.

Source: Kafka's CoordinatorMetadataImage; KIP-1101, `Utils.computeTopicHash`, `computeGroupHash`. The hash is 64-bit
XXH3 as a signed number.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from itertools import compress
from operator import itemgetter
from struct import Struct, pack
from types import MappingProxyType
from typing import Final, NamedTuple

from coordinator.group.modern.java_order import mix_topic_name

MOST_OF_IMAGE: Final = 8
"""A subscription with at least an eighth as many names as there are topics is not sorted by itself: its names are
selected from the sorted list of all topics."""
MIN_PICKED: Final = 100
MAX_TOPIC_HASHES: Final = 65_536
"""The capacity of the cache of topic hashes, in topics. A change of a member needs the hash of each topic of its
group."""


class TopicImage(NamedTuple):
    """One topic; its id has 16 bytes."""

    name: str
    topic_id: bytes
    partitions: int


class TopicOrder(NamedTuple):
    """Topics in an order: `names` and `topic_ids` correspond by position."""

    names: tuple[str, ...]
    topic_ids: tuple[bytes, ...]


class TopicsImage:
    """All topics at one moment, by name and by id. Images are immutable. A later one has a higher version within
    the life of the process.
    """

    __slots__ = ("_by_slots", "by_id", "by_name", "version")

    def __init__(self, topics: Iterable[TopicImage] = (), version: int = 0) -> None:
        self.by_name: Mapping[str, TopicImage] = MappingProxyType({topic.name: topic for topic in topics})
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType(
            {topic.topic_id: topic for topic in self.by_name.values()}
        )
        self.version = version
        self._by_slots: dict[int, TopicOrder] = {}

    def order_by_slot(self, slots: int) -> TopicOrder:
        """Return all topics in the order of a Java hash table with this many slots, within a slot by name. The
        image caches each order, because all members of large groups need it.
        """
        ordered = self._by_slots.get(slots)
        if ordered is None:
            mask, by_name = slots - 1, self.by_name
            names = sorted(by_name)
            names.sort(key=lambda name: mix_topic_name(name) & mask)
            ordered = TopicOrder(tuple(names), tuple(by_name[name].topic_id for name in names))
            self._by_slots[slots] = ordered
        return ordered

    def sort_names(self, names: frozenset[str]) -> list[str]:
        """Sort the names of a subscription. A large subscription (`MOST_OF_IMAGE`) is selected from the cached
        order of all topics.
        """
        if len(names) >= MIN_PICKED and len(self.by_name) <= len(names) * MOST_OF_IMAGE:
            existing = self.order_by_slot(1).names
            picked = list(compress(existing, map(names.__contains__, existing)))
            if len(picked) == len(names):
                return picked
        return sorted(names)

    def find_existing(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return the names that exist, in time linear in the smaller of both sets."""
        existing = self.by_name.keys()
        if len(names) <= len(existing):
            return names & existing
        return {name for name in existing if name in names}

    def find_deleted(self, later: "TopicsImage") -> tuple[str, ...]:
        """Return the names of deleted topics. A new topic may have the same name and another id."""
        found = later.by_name
        return tuple(
            name
            for name, topic in self.by_name.items()
            if name not in found or found[name].topic_id != topic.topic_id
        )

    def find_changed(self, later: "TopicsImage") -> tuple[str, ...]:
        """Return the names of topics that were created, extended, deleted or replaced."""
        before, after = self.by_name, later.by_name
        return (
            *(name for name, topic in after.items() if before.get(name) != topic),
            *(name for name in before if name not in after),
        )

    def has_new_topics(self, later: "TopicsImage") -> bool:
        """Return whether a topic was created between the two images."""
        return any(topic_id not in self.by_id for topic_id in later.by_id)


NO_TOPICS: Final = TopicsImage()


NO_TOPICS_HASH: Final = 0
"""The hash of a group without existing topics."""
_VERSION: Final = b"\x00"
_ID: Final = Struct(">qq")
_LITTLE_ID: Final = Struct("<qq")
_NUMBER: Final = Struct("<i")


def compute_topic_hash(topic: TopicImage) -> int:
    """Return the hash of a topic: its id, name and number of partitions.

    Kafka's hash also has the racks of the replicas, which no assignor uses. So hashes differ only in a data
    directory of brokers with racks: its groups then compute their assignments once more.
    """
    name = topic.name.encode("utf-16-le", "surrogatepass")
    parts = [_VERSION, _LITTLE_ID.pack(*_ID.unpack(topic.topic_id)), name, _NUMBER.pack(len(name) // 2)]
    parts.append(_NUMBER.pack(topic.partitions))
    parts.append(pack(f"<{topic.partitions}i", *range(topic.partitions)))
    return _xxh3(b"".join(parts))


find_topic_hash: Final = lru_cache(MAX_TOPIC_HASHES)(compute_topic_hash)
"""Return the hash of a topic, computed once. Source: Kafka's GroupMetadataManager, topicHashCache."""


def compute_group_hash(topics: Iterable[TopicImage]) -> int:
    """Return the hash of the existing subscribed topics, in any order; 0 for none."""
    by_name = sorted(topics, key=itemgetter(0))
    if not by_name:
        return NO_TOPICS_HASH
    if not all(topic.name.isascii() for topic in by_name):
        by_name.sort(key=lambda topic: topic.name.encode("utf-16-be", "surrogatepass"))
    return _xxh3(pack(f"<{len(by_name)}q", *map(find_topic_hash, by_name)))


@cache
def _load_xxh3() -> Callable[[bytes], int]:
    """Import the hash function, when the first consumer group needs it."""
    from xxhash import xxh3_64_intdigest

    return xxh3_64_intdigest


def _xxh3(data: bytes) -> int:
    value = _load_xxh3()(data)
    return value - (1 << 64) if value >> 63 else value
