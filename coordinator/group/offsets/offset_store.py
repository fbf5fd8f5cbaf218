"""What the log says of offsets: those that are committed, and those that wait for the end of a transaction."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Self, TypeAlias

from coordinator.group.record_store import fact_of
from coordinator.machine.open_transactions import OpenTransactions
from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from protocol.records import OffsetCommitKey, OffsetCommitValue
from protocol.records.record_types import OFFSET_COMMIT

Place: TypeAlias = tuple[str, str, int]
"""Group, topic and partition."""
PartitionOffsets: TypeAlias = dict[int, OffsetCommitValue]
GroupOffsets: TypeAlias = Mapping[str, PartitionOffsets]
"""Of one group, by topic and partition."""

NO_OFFSETS: Final[GroupOffsets] = {}


class OffsetStore:
    """Committed offsets by group, topic and partition; which groups have some of a topic; pending ones."""

    __slots__ = ("_by_group", "_groups_of_topic", "pending")

    record_type: Final = OFFSET_COMMIT

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, PartitionOffsets]] = {}
        self._groups_of_topic: dict[str, dict[str, None]] = {}
        self.pending: OpenTransactions[Place, OffsetCommitValue] = OpenTransactions()

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        """The later record of a partition wins, a tombstone removes it; one of a transaction is pending first."""
        if value is None:
            self._remove(key)
        elif producer_id != NO_PRODUCER_ID:
            self.pending.add(producer_id, (key.group, key.topic, key.partition), value)
        else:
            if self.pending.by_producer:
                self.pending.passed((key.group, key.topic, key.partition))
            try:
                self._by_group[key.group][key.topic][key.partition] = value
            except KeyError:
                self._put((key.group, key.topic, key.partition), value)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """The marker at the end of a producer's transaction; of one that has no offsets here, nothing follows."""
        for place, value in self.pending.end(producer_id, is_committed=is_committed):
            self._put(place, value)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset of a partition; None when there is none."""
        return self.of_group(group_id).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> GroupOffsets:
        """What a group has committed."""
        return self._by_group.get(group_id, NO_OFFSETS)

    def groups_of(self, topic: str) -> Collection[str]:
        """The groups that have committed offsets of a topic."""
        return self._groups_of_topic.get(topic, {}).keys()

    def group_ids(self) -> Collection[str]:
        """Every group that has a committed offset."""
        return self._by_group.keys()

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())

    def facts(self) -> Iterator[Fact]:
        """A record for each committed offset."""
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                    yield fact_of(self.record_type, key, value)

    def copy(self) -> Self:
        """What it holds now; no transaction is open."""
        assert not self.pending, "what the open transactions come to is no state yet"
        copied = type(self)()
        copied._by_group = {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in self._by_group.items()
        }
        copied._groups_of_topic = {topic: dict(groups) for topic, groups in self._groups_of_topic.items()}
        return copied

    def _put(self, place: Place, value: OffsetCommitValue) -> None:
        group_id, topic, partition = place
        topics = self._by_group.setdefault(group_id, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of_topic.setdefault(topic, {})[group_id] = None
        topics[topic][partition] = value

    def _remove(self, key: OffsetCommitKey) -> None:
        if self.pending.by_producer:
            self.pending.removed((key.group, key.topic, key.partition))
        topics = self._by_group.get(key.group)
        partitions = None if topics is None else topics.get(key.topic)
        if topics is None or partitions is None:
            return
        partitions.pop(key.partition, None)
        if not partitions:
            del topics[key.topic]
            groups = self._groups_of_topic[key.topic]
            del groups[key.group]
            if not groups:
                del self._groups_of_topic[key.topic]
        if not topics:
            del self._by_group[key.group]

    def check(self) -> None:
        """Raise AssertionError when what is derived is not what the offsets say."""
        recounted: dict[str, set[str]] = {}
        for group_id, topics in self._by_group.items():
            assert topics, f"{group_id}: no offset is left, but its place"
            for topic, partitions in topics.items():
                assert partitions, f"{group_id}: no offset of {topic} is left, but its place"
                recounted.setdefault(topic, set()).add(group_id)
        indexed = {topic: set(groups) for topic, groups in self._groups_of_topic.items()}
        assert indexed == recounted, "the groups of a topic"
