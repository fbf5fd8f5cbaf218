"""A hash of the topics that a group subscribes to: another one means that its assignment is computed anew.

Source: KIP-1101, Kafka's `Utils.computeTopicHash` and `computeGroupHash`. XXH3 of 64 bits, as a signed number.
"""

from collections.abc import Iterable
from struct import Struct, pack
from typing import Final

from xxhash import xxh3_64_intdigest

from coordinator.group.topics_image import TopicImage

NO_TOPICS_HASH: Final = 0
"""That of a group none of whose topics exists."""
_VERSION: Final = b"\x00"
_ID: Final = Struct(">qq")
_LITTLE_ID: Final = Struct("<qq")
_NUMBER: Final = Struct("<i")
_HASH: Final = Struct("<q")


def topic_hash(topic: TopicImage) -> int:
    """The hash of a topic: its id, name and number of partitions. (Kafka's also has the racks of the replicas. No
    assignor looks at racks, and only a directory of brokers with racks that is taken over has other hashes: its
    groups are assigned anew, once.)"""
    name = topic.name.encode("utf-16-le", "surrogatepass")
    parts = [_VERSION, _LITTLE_ID.pack(*_ID.unpack(topic.topic_id)), name, _NUMBER.pack(len(name) // 2)]
    parts.append(_NUMBER.pack(topic.partitions))
    parts.append(pack(f"<{topic.partitions}i", *range(topic.partitions)))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(topics: Iterable[TopicImage]) -> int:
    """The hash of the topics that exist of those to which a group subscribes, in any order; 0 for none."""
    by_name = sorted(topics, key=lambda topic: topic.name.encode("utf-16-be", "surrogatepass"))
    if not by_name:
        return NO_TOPICS_HASH
    return _signed(xxh3_64_intdigest(b"".join(_HASH.pack(topic_hash(topic)) for topic in by_name)))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
