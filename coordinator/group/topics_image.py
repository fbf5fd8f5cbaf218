"""The image of the topics that groups may consume, created once for each change and shared by all shards, and
hashes of topics.

When the hash of the topics that a group subscribes to changes, its assignment is computed again.

Source: Kafka's CoordinatorMetadataImage; KIP-1101, `Utils.computeTopicHash`, `computeGroupHash`. XXH3 of 64
bits, as a signed number.
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
"""A subscription of more than an eighth as many names as there are topics is picked from an order of all."""
MIN_PICKED: Final = 100
MAX_TOPIC_HASHES: Final = 65_536
"""The capacity of the cache of topic hashes. A change of a member needs the hash of each topic of its group."""


class TopicImage(NamedTuple):
    """One topic; its id has 16 bytes."""

    name: str
    topic_id: bytes
    partitions: int


class TopicOrder(NamedTuple):
    """Topics in an order: their names, and their ids at the same places."""

    names: tuple[str, ...]
    topic_ids: tuple[bytes, ...]


class TopicsImage:
    """All topics at one moment, by name and by id. Nobody changes an image. A later one has a higher version, as
    long as the process lives."""

    __slots__ = ("_by_slots", "by_id", "by_name", "version")

    def __init__(self, topics: Iterable[TopicImage] = (), version: int = 0) -> None:
        self.by_name: Mapping[str, TopicImage] = MappingProxyType({topic.name: topic for topic in topics})
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType(
            {topic.topic_id: topic for topic in self.by_name.values()}
        )
        self.version = version
        self._by_slots: dict[int, TopicOrder] = {}

    def order_by_slot(self, slots: int) -> TopicOrder:
        """Return all topics in the order of a Java hash table of this many slots, in one slot by name.

        The image computes each order once: members of large groups all need it."""
        ordered = self._by_slots.get(slots)
        if ordered is None:
            mask, by_name = slots - 1, self.by_name
            names = sorted(by_name)
            names.sort(key=lambda name: mix_topic_name(name) & mask)
            ordered = TopicOrder(tuple(names), tuple(by_name[name].topic_id for name in names))
            self._by_slots[slots] = ordered
        return ordered

    def sort_names(self, names: frozenset[str]) -> list[str]:
        """Sort the names of a subscription. Thousands that are topics are picked from the order of all."""
        if len(names) >= MIN_PICKED and len(self.by_name) <= len(names) * MOST_OF_IMAGE:
            existing = self.order_by_slot(1).names
            picked = list(compress(existing, map(names.__contains__, existing)))
            if len(picked) == len(names):
                return picked
        return sorted(names)

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


def compute_topic_hash(topic: TopicImage) -> int:
    """The hash of a topic: its id, name and number of partitions. (Kafka's also has the racks of the replicas. No
    assignor looks at racks, and only a directory of brokers with racks that is taken over has other hashes: its
    groups are assigned anew, once.)"""
    name = topic.name.encode("utf-16-le", "surrogatepass")
    parts = [_VERSION, _LITTLE_ID.pack(*_ID.unpack(topic.topic_id)), name, _NUMBER.pack(len(name) // 2)]
    parts.append(_NUMBER.pack(topic.partitions))
    parts.append(pack(f"<{topic.partitions}i", *range(topic.partitions)))
    return _xxh3(b"".join(parts))


find_topic_hash: Final = lru_cache(MAX_TOPIC_HASHES)(compute_topic_hash)
"""Return the hash of a topic, computed once. Source: Kafka's GroupMetadataManager, topicHashCache."""


def compute_group_hash(topics: Iterable[TopicImage]) -> int:
    """The hash of the topics that exist of those to which a group subscribes, in any order; 0 for none."""
    by_name = sorted(topics, key=itemgetter(0))
    if not by_name:
        return NO_TOPICS_HASH
    if not all(topic.name.isascii() for topic in by_name):
        by_name.sort(key=lambda topic: topic.name.encode("utf-16-be", "surrogatepass"))
    return _xxh3(pack(f"<{len(by_name)}q", *map(find_topic_hash, by_name)))


@cache
def _load_xxh3() -> Callable[[bytes], int]:
    """Import the hash function with the first consumer group."""
    from xxhash import xxh3_64_intdigest

    return xxh3_64_intdigest


def _xxh3(data: bytes) -> int:
    value = _load_xxh3()(data)
    return value - (1 << 64) if value >> 63 else value
