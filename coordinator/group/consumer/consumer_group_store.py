"""The store of consumer groups: seven types of records, which together form a group."""

from collections.abc import Callable, Collection, Iterator, Mapping
from sys import intern
from typing import Any, Final, Self

from coordinator.core.outcome import Fact
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from protocol.records.group_record_serde import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ServedRecordType,
)


def _replay_partition_metadata(group: DurableConsumerGroup, key: Any, value: Any) -> None:
    group.partition_metadata = value


REPLAY_HANDLERS: Final[Mapping[type[object], Callable[[DurableConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: lambda group, _, value: group.put_epoch(value),
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: lambda group, key, value: group.put_metadata(key.member_id, value),
    ConsumerGroupTargetAssignmentMetadataKey: lambda group, _, value: group.put_assignment_epoch(value),
    ConsumerGroupTargetAssignmentMemberKey: lambda group, key, value: group.put_target(key.member_id, value),
    ConsumerGroupCurrentMemberAssignmentKey: lambda group, key, value: group.put_current(
        key.member_id, value
    ),
    ConsumerGroupRegularExpressionKey: lambda group, key, value: group.put_regex(
        key.regular_expression, value
    ),
}
"""The function that applies a record to its group, by type."""

SUBSCRIPTION_SOURCES: Final[Mapping[type[object], Callable[[DurableConsumerGroup, Any], frozenset[str]]]] = {
    ConsumerGroupMemberMetadataKey: lambda group, key: group.find_member_topics(key.member_id),
    ConsumerGroupRegularExpressionKey: lambda group, key: group.find_regex_topics(key.regular_expression),
}
"""The topics to which a record subscribes its group, for the two types of records that name topics."""


class ConsumerGroupStore:
    """Consumer groups by id, limited to groups with records, and an index of the groups by subscribed topic. Source
    of the index: Kafka's GroupMetadataManager, groupsByTopics.
    """

    __slots__ = ("_groups_by_topic", "by_group")

    record_types: Final[tuple[ServedRecordType, ...]] = (
        CONSUMER_GROUP_METADATA,
        CONSUMER_GROUP_PARTITION_METADATA,
        CONSUMER_GROUP_MEMBER_METADATA,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        CONSUMER_GROUP_REGULAR_EXPRESSION,
    )

    def __init__(self) -> None:
        self.by_group: dict[str, DurableConsumerGroup] = {}
        self._groups_by_topic: dict[str, dict[str, None]] = {}

    def replay(self, key: Any, value: Any, producer_id: int) -> None:
        """Apply a record. The later record of a key wins; a tombstone removes it. Records of a group come in any
        order; the group is removed with its last one.
        """
        group = self.by_group.get(key.group_id)
        if group is None:
            if value is None:
                return
            group_id = intern(key.group_id)
            group = self.by_group[group_id] = DurableConsumerGroup(group_id)
        find_topics = SUBSCRIPTION_SOURCES.get(type(key))
        if find_topics is None:
            REPLAY_HANDLERS[type(key)](group, key, value)
        else:
            before = find_topics(group, key)
            REPLAY_HANDLERS[type(key)](group, key, value)
            self._update_subscriptions(group, before, find_topics(group, key))
        if value is None and group.is_blank:
            del self.by_group[group.group_id]

    def _update_subscriptions(
        self, group: DurableConsumerGroup, before: frozenset[str], after: frozenset[str]
    ) -> None:
        """Update the index after a record of a group changed its subscribed topics."""
        if before is after:
            return
        group_id, index = group.group_id, self._groups_by_topic
        for topic in after - before:
            index.setdefault(topic, {})[group_id] = None
        for topic in before - after:
            if not group.is_subscribed_to(topic):
                groups = index[topic]
                del groups[group_id]
                if not groups:
                    del index[topic]

    def find_subscribed_groups(self, topic: str) -> Collection[str]:
        """Return the ids of the groups that subscribe to a topic, by its name or by a regular expression."""
        return self._groups_by_topic.get(topic, {}).keys()

    def find_group(self, group_id: str) -> DurableConsumerGroup | None:
        """Return the durable state of a group, None without records."""
        return self.by_group.get(group_id)

    def group_ids(self) -> Collection[str]:
        """Return the ids of all groups with records."""
        return self.by_group.keys()

    def __contains__(self, group_id: str) -> bool:
        """Return whether a group has records."""
        return group_id in self.by_group

    def __len__(self) -> int:
        return sum(map(len, self.by_group.values()))

    def facts(self) -> Iterator[Fact]:
        """Yield the records of all groups, group by group."""
        for group in self.by_group.values():
            yield from group.facts()

    def iterate_group_facts(self, group_id: str) -> Iterator[Fact]:
        """Yield the records of one group."""
        group = self.by_group.get(group_id)
        return iter(()) if group is None else group.facts()

    def check_invariants(self) -> None:
        """Raise AssertionError when the index does not have exactly the subscriptions of the groups."""
        recounted: dict[str, set[str]] = {}
        for group_id, group in self.by_group.items():
            for topic in group.subscribed_topics():
                recounted.setdefault(topic, set()).add(group_id)
        indexed = {topic: set(groups) for topic, groups in self._groups_by_topic.items()}
        assert indexed == recounted, "the groups that subscribe to a topic"

    def copy(self) -> Self:
        """Return a copy to write to disk; later records do not change it. It has no index of subscriptions."""
        copied = type(self)()
        copied.by_group = {group_id: group.copy() for group_id, group in self.by_group.items()}
        return copied
