"""The durable half of a shard: exactly what its log says, and nothing that the log does not say.

It has a store for each type of record (`protocol/records/record_types.py`). `replay` and `end_transaction` are its
only writers. They run on the records that handlers emit and on those that are read back on load, so for every
prefix of the log a load of it gives the state that the live shard had there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.group.classic.metadata_store import MetadataStore
from coordinator.group.consumer.store import ConsumerGroupStore
from coordinator.group.offsets.offset_map import Place
from coordinator.group.offsets.offset_store import OffsetStore
from coordinator.group.record_store import RecordStore
from coordinator.machine.open_transactions import Ended
from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from protocol.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue


@dataclass(slots=True)
class DurableGroup:
    """What the log says of one group, for comparison: its last metadata and its offsets by (topic,
    partition); pending ones by (producer id, topic, partition); the records of a consumer group; which of the two
    kinds it is."""

    metadata: GroupMetadataValue | None
    offsets: dict[tuple[str, int], OffsetCommitValue]
    pending: dict[tuple[int, str, int], OffsetCommitValue] = field(default_factory=dict)
    consumer: list[Fact] = field(default_factory=list)
    is_consumer: bool = False


class DurableState:
    """What counts of the log, by type of record."""

    __slots__ = ("_replay", "_taken_over", "consumers", "metadata", "offsets", "stores")

    def __init__(
        self,
        metadata: MetadataStore | None = None,
        consumers: ConsumerGroupStore | None = None,
        offsets: OffsetStore | None = None,
    ) -> None:
        self.metadata = MetadataStore() if metadata is None else metadata
        self.consumers = ConsumerGroupStore() if consumers is None else consumers
        self.offsets = OffsetStore() if offsets is None else offsets
        self.stores: Sequence[RecordStore] = (self.metadata, self.consumers, self.offsets)
        self._taken_over: set[str] = set()
        """Groups with records of both kinds, of which that of a classic group came later."""
        self._replay = {kind.key: store.replay for store in self.stores for kind in store.record_types}
        self._replay.update(
            {kind.key: self._replay_consumer for kind in self.consumers.record_types},
        )
        self._replay[GroupMetadataKey] = self._replay_metadata

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it. What belongs to a producer's
        transaction counts once that is committed."""
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

    def is_consumer(self, group_id: str) -> bool:
        """Whether a group is one of the consumer protocol. A group that is converted leaves no records of its old
        kind behind; where other software left some, the kind of the later ones counts."""
        return group_id in self.consumers and group_id not in self._taken_over

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> Ended[Place, OffsetCommitValue]:
        """Apply the marker that ends a producer's transaction. Out: what that comes to."""
        return self.offsets.end_transaction(producer_id, is_committed=is_committed)

    @property
    def has_open_transactions(self) -> bool:
        """Whether records wait for the end of their transaction."""
        return bool(self.offsets.pending)

    def __contains__(self, group_id: str) -> bool:
        """Whether the log knows a group."""
        return any(group_id in store for store in self.stores)

    def group_ids(self) -> list[str]:
        """Every group that the log knows, those with metadata first, each in the log's order."""
        return list(dict.fromkeys(group_id for store in self.stores for group_id in store.group_ids()))

    def copy(self) -> "DurableState":
        """The state as it is now, which later records do not change. No transaction is open."""
        copied = DurableState(self.metadata.copy(), self.consumers.copy(), self.offsets.copy())
        copied._taken_over = set(self._taken_over)
        return copied

    def __len__(self) -> int:
        """The number of keys."""
        return sum(len(store) for store in self.stores)

    def facts(self) -> Iterator[Fact]:
        """Records that make this state of an empty one, each in a version that has all that its value says. Of a
        group with records of both kinds, those that count come last."""
        late = self._taken_over
        for fact in self.metadata.facts():
            if fact.key.group not in late:
                yield fact
        yield from self.consumers.facts()
        for fact in self.metadata.facts() if late else ():
            if fact.key.group in late:
                yield fact
        yield from self.offsets.facts()

    def snapshot(self) -> dict[str, DurableGroup]:
        """All of it, for comparison with another one."""
        pending: dict[str, dict[tuple[int, str, int], OffsetCommitValue]] = {}
        for producer_id, (group_id, topic, partition), value, _ in self.offsets.pending.pending():
            pending.setdefault(group_id, {})[producer_id, topic, partition] = value
        return {
            group_id: DurableGroup(
                self.metadata.get(group_id),
                {
                    (topic, partition): value
                    for topic, partitions in self.offsets.of_group(group_id).items()
                    for partition, value in partitions.items()
                },
                pending.get(group_id, {}),
                list(self.consumers.facts_of(group_id)),
                self.is_consumer(group_id),
            )
            for group_id in sorted({*self.group_ids(), *pending})
        }
