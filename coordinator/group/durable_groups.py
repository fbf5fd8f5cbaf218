"""The durable half of a shard: a store for each type of record, with exactly the state in the log.

`replay` and `end_transaction` are its only writers. They run on the records that handlers emit and on records that
are read from the log. So loading any prefix of the log gives the state that the live shard had there.

An offset is committed, or pending until its transaction ends. The batch of a record shows whether an offset was
committed in a transaction, but its value does not. So this is soft state (`CommitKinds`), and unknown for loaded
offsets until the next commit.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from msgspec import Struct, field

from coordinator.core.open_transaction_records import EndedTransaction, OpenTransactions
from coordinator.core.outcome import NO_PRODUCER_ID, Fact
from coordinator.group.classic.classic_records import ClassicGroupStore
from coordinator.group.consumer.consumer_group_store import ConsumerGroupStore
from coordinator.group.group_record_codec import RecordStore, build_fact
from coordinator.group.group_types import GroupType
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import OFFSET_COMMIT

V = TypeVar("V")

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group id, topic name and partition number."""


class OffsetMap(Generic[V]):
    """Values by group, topic and partition, with an index of the groups by topic."""

    __slots__ = ("_groups_of_topic", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, dict[int, V]]] = {}
        """Values by group id, topic name and partition, without empty maps. Callers only read the maps, or replace
        an existing value."""
        self._groups_of_topic: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self.by_group.values() for partitions in topics.values())

    def find_groups(self, topic: str) -> Collection[str]:
        """Return the groups that have values of a topic."""
        return self._groups_of_topic.get(topic, {}).keys()

    def set_value(self, place: OffsetKey, value: V) -> None:
        """Set or replace a value."""
        group_id, topic, partition = place
        topics = self.by_group.setdefault(group_id, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of_topic.setdefault(topic, {})[group_id] = None
        topics[topic][partition] = value

    def set_values(self, values: Iterable[tuple[OffsetKey, V]]) -> None:
        """Set many values. Consecutive keys of one topic cost a single lookup of the topic."""
        last_group: str | None = None
        last_topic: str | None = None
        partitions: dict[int, V] = {}
        for place, value in values:
            group_id, topic, partition = place
            if topic == last_topic and group_id == last_group:
                partitions[partition] = value
            else:
                self.set_value(place, value)
                partitions, last_group, last_topic = self.by_group[group_id][topic], group_id, topic

    def remove_values(self, places: Iterable[OffsetKey]) -> None:
        """Remove many values. Consecutive keys of one topic cost a single lookup of the topic."""
        last_group: str | None = None
        last_topic: str | None = None
        partitions: dict[int, V] = {}
        for place in places:
            group_id, topic, partition = place
            if len(partitions) > 1 and topic == last_topic and group_id == last_group:
                partitions.pop(partition, None)
            else:
                self.remove_value(place)
                partitions, last_group, last_topic = self._find_partitions(place), group_id, topic

    def _find_partitions(self, place: OffsetKey) -> dict[int, V]:
        return self.by_group.get(place[0], {}).get(place[1], {})

    def remove_value(self, place: OffsetKey) -> None:
        """Remove a value if it exists."""
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
        """Return a copy; later changes of one do not affect the other."""
        copied = type(self)()
        copied.by_group = {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in self.by_group.items()
        }
        copied._groups_of_topic = {topic: dict(groups) for topic, groups in self._groups_of_topic.items()}
        return copied

    def check_invariants(self) -> None:
        """Raise AssertionError if the index does not match the values."""
        recounted: dict[str, set[str]] = {}
        for group_id, topics in self.by_group.items():
            assert topics, f"{group_id}: no offset is left, but its place"
            for topic, partitions in topics.items():
                assert partitions, f"{group_id}: no offset of {topic} is left, but its place"
                recounted.setdefault(topic, set()).add(group_id)
        indexed = {topic: set(groups) for topic, groups in self._groups_of_topic.items()}
        assert indexed == recounted, "the groups of a topic"


PartitionOffsets: TypeAlias = dict[int, OffsetCommitValue]
GroupOffsets: TypeAlias = Mapping[str, PartitionOffsets]
"""Committed offsets of one group, by topic and partition."""
PendingPartitions: TypeAlias = Mapping[str, Collection[int]]
"""Pending partitions of one group, by topic."""

NO_OFFSETS: Final[GroupOffsets] = {}
NONE_PENDING: Final[PendingPartitions] = {}


class OffsetStore:
    """Committed offsets by group, topic and partition, and pending ones by producer. Indexes: the partitions with
    pending offsets, and the groups with either kind by topic.
    """

    __slots__ = ("_by_group", "_committed", "_waiting", "pending")

    record_types: Final = (OFFSET_COMMIT,)

    def __init__(self) -> None:
        self._committed: OffsetMap[OffsetCommitValue] = OffsetMap()
        self._by_group = self._committed.by_group
        self._waiting: OffsetMap[None] = OffsetMap()
        """The partitions with pending offsets."""
        self.pending: OpenTransactions[OffsetKey, OffsetCommitValue] = OpenTransactions()

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        """Apply a record.

        The later record of a partition wins. A tombstone removes the offset and everything pending for the
        partition. A record of a transaction is pending at first.
        """
        if value is None:
            self._remove_offset((key.group, key.topic, key.partition))
        elif producer_id != NO_PRODUCER_ID:
            place = key.group, key.topic, key.partition
            self.pending.add_record(producer_id, place, value)
            self._waiting.set_value(place, None)
        else:
            if self.pending.by_producer:
                self.pending.supersede((key.group, key.topic, key.partition))
            try:
                self._by_group[key.group][key.topic][key.partition] = value
            except KeyError:
                self._committed.set_value((key.group, key.topic, key.partition), value)

    def end_transaction(
        self, producer_id: int, *, is_committed: bool
    ) -> EndedTransaction[OffsetKey, OffsetCommitValue]:
        """Apply the marker that ends a producer's transaction. A producer without offsets here is ignored.

        Returns:
            The offsets that the marker commits, and the offsets that it drops because newer ones are committed.
        """
        pending = self.pending
        places = list(pending.by_producer.get(producer_id, ())) if len(pending.by_producer) > 1 else ()
        ended = pending.end_transaction(producer_id, is_committed=is_committed)
        if pending.by_producer:
            self._waiting.remove_values(place for place in places if not pending.find_producers(place))
        else:
            self._waiting = OffsetMap()
        self._committed.set_values(ended.committed)
        return ended

    def find_offset(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return the committed offset of a partition, None if it does not exist."""
        return self.find_group_offsets(group_id).get(topic, {}).get(partition)

    def find_group_offsets(self, group_id: str) -> GroupOffsets:
        """Return the committed offsets of a group."""
        return self._by_group.get(group_id, NO_OFFSETS)

    def find_pending_partitions(self, group_id: str) -> PendingPartitions:
        """Return the partitions of a group with pending offsets of any producer."""
        return self._waiting.by_group.get(group_id, NONE_PENDING)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a partition has a pending offset."""
        return bool(self.pending.by_producer) and partition in self.find_pending_partitions(group_id).get(
            topic, ()
        )

    def count_pending_by_producer(self, group_id: str) -> Mapping[int, int]:
        """Return the number of a group's partitions with a pending offset, by producer id."""
        return Counter(
            producer_id
            for topic, partitions in self.find_pending_partitions(group_id).items()
            for partition in partitions
            for producer_id in self.pending.find_producers((group_id, topic, partition))
        )

    def list_partitions(self, group_id: str, topics: Collection[str] | None = None) -> list[tuple[str, int]]:
        """Return the partitions in which a group has committed or pending offsets, limited to `topics` if given."""
        places = {
            (topic, partition): None
            for of_group in (self.find_group_offsets(group_id), self.find_pending_partitions(group_id))
            for topic in (of_group if topics is None else topics)
            for partition in of_group.get(topic, ())
        }
        return list(places)

    def find_groups(self, topic: str) -> Collection[str]:
        """Return the groups that have committed or pending offsets of a topic."""
        return dict.fromkeys((*self._committed.find_groups(topic), *self._waiting.find_groups(topic))).keys()

    def topic_ids(self) -> dict[str, set[bytes]]:
        """Return the ids of all topics with committed offsets, by name. A recreated topic may have several ids."""
        found: dict[str, set[bytes]] = {}
        for topics in self._by_group.values():
            for topic, partitions in topics.items():
                found.setdefault(topic, set()).update(value.topic_id for value in partitions.values())
        return found

    def group_ids(self) -> Collection[str]:
        """Return all groups with a committed or pending offset, those with a committed one first."""
        committed, waiting = self._by_group, self._waiting.by_group
        return dict.fromkeys((*committed, *waiting)).keys() if waiting else committed.keys()

    def __contains__(self, group_id: str) -> bool:
        """Return whether a group has a committed or pending offset."""
        return group_id in self._by_group or group_id in self._waiting.by_group

    def __len__(self) -> int:
        """Return the number of committed offsets."""
        return len(self._committed)

    def facts(self) -> Iterator[Fact]:
        """Yield a record for each committed offset."""
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                    yield build_fact(OFFSET_COMMIT, key, value)

    def copy(self) -> Self:
        """Return a copy. Requires that no transaction is open."""
        assert not self.pending, "what the open transactions come to is no state yet"
        copied = type(self)()
        copied._committed = self._committed.copy()
        copied._by_group = copied._committed.by_group
        return copied

    def _remove_offset(self, place: OffsetKey) -> None:
        if self.pending.by_producer:
            self.pending.remove_key(place)
            self._waiting.remove_value(place)
        self._committed.remove_value(place)

    def check_invariants(self) -> None:
        """Raise AssertionError if an index does not match the offsets."""
        self._committed.check_invariants()
        self._waiting.check_invariants()
        self.pending.check_invariants()
        waiting = {
            (group_id, topic, partition)
            for group_id, topics in self._waiting.by_group.items()
            for topic, partitions in topics.items()
            for partition in partitions
        }
        pending = {place for places in self.pending.by_producer.values() for place in places}
        assert waiting == pending, "where offsets are pending"


class DurableGroupSnapshot(Struct):
    """The logged state of one group, for comparison.

    `metadata` is the last record of the classic group, `consumer` the records of the consumer group. If both exist,
    `is_consumer` tells which type is effective. `offsets` are by (topic, partition), `pending` by (producer id,
    topic, partition).
    """

    metadata: GroupMetadataValue | None
    offsets: dict[tuple[str, int], OffsetCommitValue]
    pending: dict[tuple[int, str, int], OffsetCommitValue] = field(default_factory=dict)
    consumer: list[Fact] = field(default_factory=list)
    is_consumer: bool = False


class DurableGroups:
    """The effective state of the log, by type of record."""

    __slots__ = ("_replay", "_taken_over", "consumers", "metadata", "offsets", "stores")

    def __init__(
        self,
        metadata: ClassicGroupStore | None = None,
        consumers: ConsumerGroupStore | None = None,
        offsets: OffsetStore | None = None,
    ) -> None:
        self.metadata = ClassicGroupStore() if metadata is None else metadata
        self.consumers = ConsumerGroupStore() if consumers is None else consumers
        self.offsets = OffsetStore() if offsets is None else offsets
        self.stores: Sequence[RecordStore] = (self.metadata, self.consumers, self.offsets)
        self._taken_over: set[str] = set()
        """Ids of groups with records of both types, of which the record of the classic group came later."""
        self._replay = {kind.key: store.replay for store in self.stores for kind in store.record_types}
        self._replay.update(
            {kind.key: self._replay_consumer for kind in self.consumers.record_types},
        )
        self._replay[GroupMetadataKey] = self._replay_metadata

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it. A record of a producer's
        transaction takes effect with the commit.
        """
        self._replay[type(record.key)](record.key, record.value, producer_id)

    def _replay_metadata(
        self, key: GroupMetadataKey, value: GroupMetadataValue | None, producer_id: int
    ) -> None:
        self.metadata.replay(key, value, producer_id)
        if value is not None and key.group in self.consumers:
            self._taken_over.add(key.group)
        else:
            self._taken_over.discard(key.group)

    def _replay_consumer(self, key: Any, value: Any, producer_id: int) -> None:
        self.consumers.replay(key, value, producer_id)
        if value is not None or key.group_id not in self.consumers:
            self._taken_over.discard(key.group_id)

    def is_taken_over(self, group_id: str) -> bool:
        """Return whether a group has records of both types, and the record of the classic group came later."""
        return group_id in self._taken_over

    def find_group_type(self, group_id: str) -> GroupType:
        """Return the type of a group in the log. A conversion removes the records of the old type; if other
        software left some, the type of the later records counts.
        """
        is_consumer = group_id in self.consumers and group_id not in self._taken_over
        return GroupType.CONSUMER if is_consumer else GroupType.CLASSIC

    def end_transaction(
        self, producer_id: int, *, is_committed: bool
    ) -> EndedTransaction[OffsetKey, OffsetCommitValue]:
        """Apply the marker that ends a producer's transaction; return the affected offsets."""
        return self.offsets.end_transaction(producer_id, is_committed=is_committed)

    @property
    def has_open_transactions(self) -> bool:
        """Return whether any transaction is open."""
        return bool(self.offsets.pending)

    def __contains__(self, group_id: str) -> bool:
        """Return whether the log has records of a group."""
        return any(group_id in store for store in self.stores)

    def group_ids(self) -> list[str]:
        """Return all group ids in the log, those with metadata first, each part in the log's order."""
        return list(dict.fromkeys(group_id for store in self.stores for group_id in store.group_ids()))

    def copy(self) -> "DurableGroups":
        """Return a copy that later records do not change. Requires that no transaction is open."""
        copied = DurableGroups(self.metadata.copy(), self.consumers.copy(), self.offsets.copy())
        copied._taken_over = set(self._taken_over)
        return copied

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(len(store) for store in self.stores)

    def facts(self) -> Iterator[Fact]:
        """Yield records that restore this state from an empty one, each in a version that can hold all fields of
        its value. For a group with records of both types, the effective ones come last.
        """
        late = self._taken_over
        for fact in self.metadata.facts():
            if fact.key.group not in late:
                yield fact
        yield from self.consumers.facts()
        for fact in self.metadata.facts() if late else ():
            if fact.key.group in late:
                yield fact
        yield from self.offsets.facts()

    def snapshot(self) -> dict[str, DurableGroupSnapshot]:
        """Return the state of all groups, for comparison."""
        pending: dict[str, dict[tuple[int, str, int], OffsetCommitValue]] = {}
        for producer_id, (group_id, topic, partition), value, _ in self.offsets.pending.iterate_pending():
            pending.setdefault(group_id, {})[producer_id, topic, partition] = value
        return {
            group_id: DurableGroupSnapshot(
                self.metadata.find_metadata(group_id),
                {
                    (topic, partition): value
                    for topic, partitions in self.offsets.find_group_offsets(group_id).items()
                    for partition, value in partitions.items()
                },
                pending.get(group_id, {}),
                list(self.consumers.iterate_group_facts(group_id)),
                self.find_group_type(group_id) is GroupType.CONSUMER,
            )
            for group_id in sorted({*self.group_ids(), *pending})
        }


_NO_PARTITIONS: Final[Collection[tuple[str, int]]] = ()


class CommitKinds:
    """How the groups of one shard committed their offsets: in transactions, outside of them, or unknown. For a
    group known to mix both, only that fact is kept.
    """

    __slots__ = ("_mixed", "_unknown_until_ms", "transactional")

    def __init__(self) -> None:
        self._unknown_until_ms: dict[str, int] = {}
        """By group: the wall time before which the kind of its commits is unknown."""
        self.transactional: dict[str, set[tuple[str, int]]] = {}
        """Partitions with a current offset from a transaction, by group. Read only."""
        self._mixed: set[str] = set()

    def on_group_loaded(self, group_id: str, wall_ms: int) -> None:
        """Mark the kind of all earlier commits of a group as unknown."""
        self._unknown_until_ms[group_id] = wall_ms

    def find_loaded_ms(self, group_id: str) -> int | None:
        """Return the wall time before which the kind of a group's commits is unknown, None if it is known."""
        return self._unknown_until_ms.get(group_id)

    def record_external_commit(self, group_id: str, places: Iterable[OffsetKey], wall_ms: int) -> None:
        """Record commits by a client without membership, such as a tool that resets the offsets of a stopped
        application. They do not show how the application commits: that is unknown again for earlier offsets.
        """
        self._unknown_until_ms[group_id] = wall_ms
        if group_id in self.transactional:
            for place in places:
                self.remove_offset(place)

    def record_transactional_commit(self, places: Iterable[OffsetKey]) -> None:
        """Record the offsets of a committed transaction."""
        for group_id, of_group in groupby(places, itemgetter(0)):
            if group_id not in self._mixed:
                self.transactional.setdefault(group_id, set()).update(map(itemgetter(1, 2), of_group))

    def remove_offset(self, place: OffsetKey) -> None:
        """Forget a removed offset."""
        group_id, topic, partition = place
        places = self.transactional.get(group_id)
        if places is not None:
            places.discard((topic, partition))
            if not places:
                del self.transactional[group_id]

    def forget_group(self, group_id: str) -> None:
        """Forget a deleted group."""
        self._unknown_until_ms.pop(group_id, None)
        self.transactional.pop(group_id, None)
        self._mixed.discard(group_id)

    def mark_mixed(self, group_id: str) -> None:
        """Mark a group as committing both in transactions and outside of them."""
        self._mixed.add(group_id)
        self.transactional.pop(group_id, None)

    def is_mixed(self, group_id: str) -> bool:
        """Return whether a group is known to commit both ways."""
        return group_id in self._mixed

    def find_transactional(self, group_id: str) -> Collection[tuple[str, int]]:
        """Return the partitions of a group with a current offset from a transaction."""
        return self.transactional.get(group_id, _NO_PARTITIONS)

    def is_plain_commit(self, place: OffsetKey, current: OffsetCommitValue, now_ms: int) -> bool:
        """Return whether a current offset is known to have been committed outside of transactions. `now_ms` is the
        wall time.
        """
        group_id, topic, partition = place
        if (topic, partition) in self.find_transactional(group_id):
            return False
        unknown_until_ms = self._unknown_until_ms.get(group_id)
        return unknown_until_ms is None or unknown_until_ms < current.commit_timestamp <= now_ms
