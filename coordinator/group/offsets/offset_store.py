"""What the log says of offsets: those that are committed, and those that wait for the end of a transaction."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Self, TypeAlias

from coordinator.group.offsets.offset_map import OffsetMap, Place
from coordinator.group.record_store import fact_of
from coordinator.machine.open_transactions import Ended, OpenTransactions
from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from protocol.records import OffsetCommitKey, OffsetCommitValue
from protocol.records.record_types import OFFSET_COMMIT

PartitionOffsets: TypeAlias = dict[int, OffsetCommitValue]
GroupOffsets: TypeAlias = Mapping[str, PartitionOffsets]
"""Of one group, by topic and partition."""
PendingPartitions: TypeAlias = Mapping[str, Collection[int]]
"""Of one group, by topic."""

NO_OFFSETS: Final[GroupOffsets] = {}
NONE_PENDING: Final[PendingPartitions] = {}


class OffsetStore:
    """Committed offsets by group, topic and partition; pending ones by producer, and which partitions have any;
    which groups have either of a topic."""

    __slots__ = ("_by_group", "_committed", "_waiting", "pending")

    record_types: Final = (OFFSET_COMMIT,)

    def __init__(self) -> None:
        self._committed: OffsetMap[OffsetCommitValue] = OffsetMap()
        self._by_group = self._committed.by_group
        self._waiting: OffsetMap[None] = OffsetMap()
        """Where offsets are pending."""
        self.pending: OpenTransactions[Place, OffsetCommitValue] = OpenTransactions()

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        """The later record of a partition wins, a tombstone removes it and all that is pending; one of a
        transaction is pending first."""
        if value is None:
            self._remove((key.group, key.topic, key.partition))
        elif producer_id != NO_PRODUCER_ID:
            place = key.group, key.topic, key.partition
            self.pending.add(producer_id, place, value)
            self._waiting.put(place, None)
        else:
            if self.pending.by_producer:
                self.pending.passed((key.group, key.topic, key.partition))
            try:
                self._by_group[key.group][key.topic][key.partition] = value
            except KeyError:
                self._committed.put((key.group, key.topic, key.partition), value)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> Ended[Place, OffsetCommitValue]:
        """The marker at the end of a producer's transaction; of one that has no offsets here, nothing follows. Out:
        the offsets that are committed now, and those that were committed in vain."""
        places = list(self.pending.by_producer.get(producer_id, ()))
        ended = self.pending.end(producer_id, is_committed=is_committed)
        for place in places:
            if not self.pending.producers_of(place):
                self._waiting.remove(place)
        for place, value in ended.counting:
            self._committed.put(place, value)
        return ended

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset of a partition; None when there is none."""
        return self.of_group(group_id).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> GroupOffsets:
        """What a group has committed."""
        return self._by_group.get(group_id, NO_OFFSETS)

    def pending_of(self, group_id: str) -> PendingPartitions:
        """Where a group has pending offsets, whosever they are."""
        return self._waiting.by_group.get(group_id, NONE_PENDING)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a partition has a pending offset."""
        return bool(self.pending.by_producer) and partition in self.pending_of(group_id).get(topic, ())

    def pending_by_producer(self, group_id: str) -> Mapping[int, int]:
        """For how many partitions of a group each producer has a pending offset, by producer id."""
        return Counter(
            producer_id
            for topic, partitions in self.pending_of(group_id).items()
            for partition in partitions
            for producer_id in self.pending.producers_of((group_id, topic, partition))
        )

    def places_of(self, group_id: str, topics: Collection[str] | None = None) -> list[tuple[str, int]]:
        """Where a group has committed or pending offsets, by topic and partition; of these topics, if given."""
        places = {
            (topic, partition): None
            for of_group in (self.of_group(group_id), self.pending_of(group_id))
            for topic in (of_group if topics is None else topics)
            for partition in of_group.get(topic, ())
        }
        return list(places)

    def groups_of(self, topic: str) -> Collection[str]:
        """The groups that have committed or pending offsets of a topic."""
        return dict.fromkeys((*self._committed.groups_of(topic), *self._waiting.groups_of(topic))).keys()

    def topic_ids(self) -> dict[str, set[bytes]]:
        """The topics that offsets were committed of, by name: more than one topic may have had it."""
        found: dict[str, set[bytes]] = {}
        for topics in self._by_group.values():
            for topic, partitions in topics.items():
                found.setdefault(topic, set()).update(value.topic_id for value in partitions.values())
        return found

    def group_ids(self) -> Collection[str]:
        """Every group that has a committed or a pending offset, those with a committed one first."""
        committed, waiting = self._by_group, self._waiting.by_group
        return dict.fromkeys((*committed, *waiting)).keys() if waiting else committed.keys()

    def __contains__(self, group_id: str) -> bool:
        """Whether a group has a committed or a pending offset."""
        return group_id in self._by_group or group_id in self._waiting.by_group

    def __len__(self) -> int:
        """The number of committed offsets."""
        return len(self._committed)

    def facts(self) -> Iterator[Fact]:
        """A record for each committed offset."""
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                    yield fact_of(OFFSET_COMMIT, key, value)

    def copy(self) -> Self:
        """What it holds now; no transaction is open."""
        assert not self.pending, "what the open transactions come to is no state yet"
        copied = type(self)()
        copied._committed = self._committed.copy()
        copied._by_group = copied._committed.by_group
        return copied

    def _remove(self, place: Place) -> None:
        if self.pending.by_producer:
            self.pending.removed(place)
            self._waiting.remove(place)
        self._committed.remove(place)

    def check(self) -> None:
        """Raise AssertionError when what is derived is not what the offsets say."""
        self._committed.check()
        self._waiting.check()
        self.pending.check()
        waiting = {
            (group_id, topic, partition)
            for group_id, topics in self._waiting.by_group.items()
            for topic, partitions in topics.items()
            for partition in partitions
        }
        pending = {place for places in self.pending.by_producer.values() for place in places}
        assert waiting == pending, "where offsets are pending"
