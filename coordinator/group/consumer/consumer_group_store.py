"""What the log says of consumer groups: seven types of records, which together make a group."""

from collections.abc import Callable, Collection, Iterator, Mapping
from sys import intern
from typing import Any, Final, Self

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.machine.outcome import Fact
from protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from protocol.records.record_type import ServedType
from protocol.records.record_types import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
)


def _partition_metadata(group: DurableConsumerGroup, key: Any, value: Any) -> None:
    group.partition_metadata = value


REPLAYS: Final[Mapping[type[object], Callable[[DurableConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: lambda group, _, value: group.put_epoch(value),
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
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
"""What a record changes in its group."""


class ConsumerGroupStore:
    """Consumer groups by id, those alone of which the log says something."""

    __slots__ = ("by_group",)

    record_types: Final[tuple[ServedType, ...]] = (
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

    def replay(self, key: Any, value: Any, producer_id: int) -> None:
        """The later record of a key wins, a tombstone removes it. Records of a group come in any order; with the
        last one that counts it is gone."""
        group = self.by_group.get(key.group_id)
        if group is None:
            if value is None:
                return
            group_id = intern(key.group_id)
            group = self.by_group[group_id] = DurableConsumerGroup(group_id)
        REPLAYS[type(key)](group, key, value)
        if value is None and group.is_blank:
            del self.by_group[group.group_id]

    def get(self, group_id: str) -> DurableConsumerGroup | None:
        """What the log says of a group; None when that is nothing."""
        return self.by_group.get(group_id)

    def group_ids(self) -> Collection[str]:
        """Every group of which there is a record."""
        return self.by_group.keys()

    def __contains__(self, group_id: str) -> bool:
        """Whether there is a record of a group."""
        return group_id in self.by_group

    def __len__(self) -> int:
        return sum(map(len, self.by_group.values()))

    def facts(self) -> Iterator[Fact]:
        """The records of each group, one after the other."""
        for group in self.by_group.values():
            yield from group.facts()

    def facts_of(self, group_id: str) -> Iterator[Fact]:
        """The records of one group."""
        group = self.by_group.get(group_id)
        return iter(()) if group is None else group.facts()

    def copy(self) -> Self:
        """What it holds now."""
        copied = type(self)()
        copied.by_group = {group_id: group.copy() for group_id, group in self.by_group.items()}
        return copied
