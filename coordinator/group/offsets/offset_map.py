"""Something for each of many partitions of many groups."""

from collections.abc import Collection, Mapping
from typing import Final, Generic, Self, TypeAlias, TypeVar

V = TypeVar("V")

Place: TypeAlias = tuple[str, str, int]
"""Group, topic and partition."""
OfGroup: TypeAlias = Mapping[str, dict[int, V]]
"""Of one group, by topic and partition."""

_NOTHING: Final[Mapping[str, dict[int, object]]] = {}


class OffsetMap(Generic[V]):
    """Values by group, topic and partition; and which groups have some of a topic."""

    __slots__ = ("_groups_of_topic", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, dict[int, V]]] = {}
        """No part of it is empty. To be read; the value that a place has may be replaced."""
        self._groups_of_topic: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self.by_group.values() for partitions in topics.values())

    def of_group(self, group_id: str) -> OfGroup[V]:
        """What a group has."""
        return self.by_group.get(group_id, _NOTHING)  # type: ignore[arg-type]

    def groups_of(self, topic: str) -> Collection[str]:
        """The groups that have something of a topic."""
        return self._groups_of_topic.get(topic, {}).keys()

    def put(self, place: Place, value: V) -> None:
        """The value of a place, instead of an earlier one."""
        group_id, topic, partition = place
        topics = self.by_group.setdefault(group_id, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of_topic.setdefault(topic, {})[group_id] = None
        topics[topic][partition] = value

    def remove(self, place: Place) -> None:
        """No value, if there was one."""
        group_id, topic, partition = place
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            groups = self._groups_of_topic[topic]
            del groups[group_id]
            if not groups:
                del self._groups_of_topic[topic]
        if not topics:
            del self.by_group[group_id]

    def copy(self) -> Self:
        """The same values in another one."""
        copied = type(self)()
        copied.by_group = {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in self.by_group.items()
        }
        copied._groups_of_topic = {topic: dict(groups) for topic, groups in self._groups_of_topic.items()}
        return copied

    def check(self) -> None:
        """Raise AssertionError when what is derived is not what the values say."""
        recounted: dict[str, set[str]] = {}
        for group_id, topics in self.by_group.items():
            assert topics, f"{group_id}: no offset is left, but its place"
            for topic, partitions in topics.items():
                assert partitions, f"{group_id}: no offset of {topic} is left, but its place"
                recounted.setdefault(topic, set()).add(group_id)
        indexed = {topic: set(groups) for topic, groups in self._groups_of_topic.items()}
        assert indexed == recounted, "the groups of a topic"
