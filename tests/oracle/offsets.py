"""Requests for committed offsets, in the form of each version."""

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.oracle.play import Topic

Partitions = Mapping[Topic | str, Sequence[int]]


def name_of(topic: Topic | str) -> str:
    """Of a topic that exists, or of one that does not."""
    return topic.name if isinstance(topic, Topic) else topic


def group_request(
    group: str, partitions: Partitions | None, version: int = 9, **fields: Any
) -> OffsetFetchRequestGroup:
    """One group of an OffsetFetch; from v10 on topics go by their id. None: all partitions."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(
                name=name_of(topic),
                partition_indexes=list(indexes),
                **({"topic_id": topic.id} if version >= 10 and isinstance(topic, Topic) else {}),
            )
            for topic, indexes in partitions.items()
        ]
    return OffsetFetchRequestGroup(group_id=group, topics=topics, **fields)


def fetch_request(
    group: str, version: int, partitions: Partitions | None = None, require_stable: bool = False
) -> OffsetFetchRequest:
    """An OffsetFetch for one group."""
    if version >= 8:
        groups = [group_request(group, partitions, version)]
        return OffsetFetchRequest(groups=groups, require_stable=require_stable)
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopic(name=name_of(topic), partition_indexes=list(indexes))
            for topic, indexes in partitions.items()
        ]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable)


def delete_request(group: str, partitions: Partitions) -> OffsetDeleteRequest:
    """An OffsetDelete."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name_of(topic),
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for topic, indexes in partitions.items()
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)
