"""A topic, and one that is to be: its name and id, its partitions and properties."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.config.topic_configs import TopicValues
from coordinator.topics.partition import HostedPartition, Partition
from coordinator.topics.refusal import Refusal
from coordinator.topics.topic_name import is_internal
from storage.errors import StorageError
from storage.uuid_text import uuid_to_text

ZERO_ID: Final = bytes(16)
# 00…01 names the cluster metadata log; ids whose text begins with '-' are awkward to type. Kafka skips both.
_RESERVED_IDS: Final = frozenset({ZERO_ID, bytes(15) + b"\x01"})


def random_topic_id() -> bytes:
    """A version 4 UUID that Kafka would accept as a topic id."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id not in _RESERVED_IDS and not uuid_to_text(topic_id).startswith("-"):
            return topic_id


class NewTopic(NamedTuple):
    """A topic to create: a legal name that is free, how many partitions, valid properties of its own; the id that
    it has elsewhere already, if so; how many brokers may lead a partition."""

    name: str
    partitions: int
    overrides: Mapping[str, str]
    topic_id: bytes | None = None
    replication_factor: int = 1


class Topic:
    """One topic. `overrides` are its own properties as text, `values` all that act, parsed."""

    __slots__ = (
        "hosted",
        "is_internal",
        "name",
        "overrides",
        "partitions",
        "replication_factor",
        "topic_id",
        "values",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        overrides: dict[str, str],
        values: TopicValues,
        hosted: list[HostedPartition],
        partitions: Sequence[Partition] | None = None,
        replication_factor: int = 1,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal(name)
        self.overrides = overrides
        self.values = values
        self.hosted = hosted
        """Partitions that clients produce to: all of them, or none."""
        self.partitions: Sequence[Partition] = hosted if partitions is None else partitions
        self.replication_factor = replication_factor
        """What it was made with. Above 1 its records are in the engine of the cluster, and not on one broker's
        disk."""


Created = dict[str, Topic | Refusal | OSError | StorageError]
"""What became of new topics, by name."""

Grown = dict[str, Refusal | OSError | StorageError | None]
"""Why topics have not grown, by name; None for those that have."""
