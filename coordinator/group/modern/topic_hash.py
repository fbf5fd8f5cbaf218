"""Hashes."""

from collections.abc import Iterable
from zlib import crc32

from coordinator.group.topics_image import TopicImage


def topic_hash(topic: TopicImage) -> int:
    """Of a topic."""
    return crc32(repr(tuple(topic)).encode()) + 1


def group_hash(topics: Iterable[TopicImage]) -> int:
    """Of a group."""
    hashes = [topic_hash(topic) for topic in sorted(topics, key=lambda topic: topic.name)]
    return crc32(repr(hashes).encode()) + 1 if hashes else 0
