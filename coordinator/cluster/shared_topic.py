"""A topic as the cluster has it, and as the value of its key."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.cluster.engine.engine import Entry
from coordinator.cluster.key_values import UnreadableKey, parse_object
from storage.uuid_text import uuid_from_text

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SharedTopic(NamedTuple):
    """A topic as the cluster has it."""

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str]
    replicas: Sequence[Sequence[int]]
    """By partition: the nodes that may lead it, the one first that should. Where its records are on a disk that is
    the one node which has them."""
    is_replicated: bool
    """Whether the engine has its records, and not the disk of a node."""
    created_at: int
    """The revision at which its key came into being: of two topics of one name each has its own."""

    @property
    def replication_factor(self) -> int:
        """As catalogues have it: 1 says that the records are on a disk, though one node alone may lead others."""
        return max(2, len(self.replicas[0])) if self.is_replicated else 1

    @property
    def fields(self) -> dict[str, Any]:
        """What catalogues and the key have in common."""
        return {"topic_id": self.topic_id, "partitions": self.partitions, "configs": dict(self.configs)}


def encoded(fields: Mapping[str, Any], replicas: Sequence[Sequence[int]], is_replicated: bool) -> bytes:
    """The value of a topic's key."""
    where = {"replicas": replicas} if is_replicated else {"leaders": [each[0] for each in replicas]}
    return json.dumps({**fields, **where}).encode()


def parse_topic(name: str, entry: Entry) -> SharedTopic:
    """Return the topic of a name from its key. Raises UnreadableKey."""
    if not _NAME.fullmatch(name):
        raise UnreadableKey("does not name a topic")
    try:
        topic = _decoded(name, parse_object(entry.value), entry.created_at)
        is_well_formed = (
            len(uuid_from_text(topic.topic_id)) > 0
            and 0 < topic.partitions <= len(topic.replicas)
            and all(isinstance(text, str) for pair in topic.configs.items() for text in pair)
            and all(nodes and all(isinstance(node, int) for node in nodes) for nodes in topic.replicas)
        )
    except UnreadableKey:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableKey(f"is not a topic as groupd writes it: {error!r}") from error
    if not is_well_formed:
        raise UnreadableKey("is not a topic as groupd writes it")
    return topic


def _decoded(name: str, fields: Mapping[str, Any], created_at: int) -> SharedTopic:
    is_replicated = "replicas" in fields
    return SharedTopic(
        name,
        fields["topic_id"],
        fields["partitions"],
        fields["configs"],
        fields["replicas"] if is_replicated else [[node_id] for node_id in fields["leaders"]],
        is_replicated,
        created_at,
    )
