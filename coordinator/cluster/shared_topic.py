"""A topic of the cluster as the value of its key, and the merge of concurrent changes by two brokers to a topic
or to the configs of a group.

A merge compares three states: the broker's own catalogue before and after its change, and the key, which
another broker may have changed since.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.cluster.cluster_keys import UnreadableKey, parse_object
from coordinator.cluster.key_value_store import KeyEntry
from coordinator.cluster.partition_ownership import ClusterChangeRefused, ClusterTopicExists
from storage.topic_partition import uuid_from_text

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SharedTopic(NamedTuple):
    """A topic of the cluster."""

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str]
    replicas: Sequence[Sequence[int]]
    """Replicas by partition, the preferred one first. Records on a disk have one replica: the node with that
    disk.
    """
    is_replicated: bool
    """Whether the records are in the store, and not on the disk of a node."""
    created_at: int
    """The revision at which the key was created. It differs between two topics of one name."""

    @property
    def replication_factor(self) -> int:
        """Replication factor in catalogues: 1 for records on a disk, at least 2 for replicated ones, even on
        one node.
        """
        return max(2, len(self.replicas[0])) if self.is_replicated else 1

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that catalogues and the key share."""
        return {"topic_id": self.topic_id, "partitions": self.partitions, "configs": dict(self.configs)}


def encode_topic(fields: Mapping[str, Any], replicas: Sequence[Sequence[int]], is_replicated: bool) -> bytes:
    """Return the value of a topic's key."""
    where = {"replicas": replicas} if is_replicated else {"leaders": [each[0] for each in replicas]}
    return json.dumps({**fields, **where}).encode()


def parse_topic(name: str, entry: KeyEntry) -> SharedTopic:
    """Return the topic of a name from its key. Raises UnreadableKey."""
    if not _NAME.fullmatch(name):
        raise UnreadableKey("does not name a topic")
    try:
        topic = _decode_topic(name, parse_object(entry.value), entry.created_at)
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


def _decode_topic(name: str, fields: Mapping[str, Any], created_at: int) -> SharedTopic:
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


def merge_topic(
    name: str,
    before: Mapping[str, Any] | None,
    own: Mapping[str, Any],
    shared: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the new fields of a topic's key: id, partitions and configs; for a new topic all of `own`.

    Args:
        name: Name of the topic.
        before: This broker's topic before its change; None for a new one.
        own: This broker's topic after its change.
        shared: The topic of the key; None without a key.

    Raises:
        ClusterChangeRefused: Another broker deleted the topic.
        ClusterTopicExists: Another broker created a topic of that name.
    """
    if shared is None:
        if before is not None:
            raise ClusterChangeRefused(f"topic {name} was deleted by another broker")
        return dict(own)
    if shared["topic_id"] != own["topic_id"]:
        raise ClusterTopicExists(f"topic {name} was created by another broker")
    base: Mapping[str, Any] = before or {"partitions": 0, "configs": {}}
    has_grown = own["partitions"] > base["partitions"]
    partitions = max(shared["partitions"], own["partitions"]) if has_grown else shared["partitions"]
    configs = merge_configs(base["configs"], own["configs"], shared["configs"])
    return {"topic_id": own["topic_id"], "partitions": partitions, "configs": configs}


def merge_configs(
    before: Mapping[str, str], own: Mapping[str, str], shared: Mapping[str, str]
) -> dict[str, str]:
    """Return the shared configs with the changes between `before` and `own`."""
    kept = {key: value for key, value in shared.items() if key in own or key not in before}
    return kept | {key: value for key, value in own.items() if before.get(key) != value}
