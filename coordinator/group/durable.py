"""The durable half of a shard: exactly what its log says, and nothing that the log does not say.

It has a store for each type of record (`protocol/records/record_types.py`). `replay` and `end_transaction` are its
only writers. They run on the records that handlers emit and on those that are read back on load, so for every
prefix of the log a load of it gives the state that the live shard had there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from coordinator.group.classic.metadata_store import MetadataStore
from coordinator.group.offsets.offset_map import Place
from coordinator.group.offsets.offset_store import OffsetStore
from coordinator.group.record_store import RecordStore
from coordinator.machine.open_transactions import Ended
from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from protocol.records import GroupMetadataValue, OffsetCommitValue


@dataclass(slots=True)
class DurableGroup:
    """What the log says of one group, for comparison: its last metadata and its offsets by (topic,
    partition); pending ones by (producer id, topic, partition)."""

    metadata: GroupMetadataValue | None
    offsets: dict[tuple[str, int], OffsetCommitValue]
    pending: dict[tuple[int, str, int], OffsetCommitValue] = field(default_factory=dict)


class DurableState:
    """What counts of the log, by type of record."""

    __slots__ = ("_replay", "metadata", "offsets", "stores")

    def __init__(self, metadata: MetadataStore | None = None, offsets: OffsetStore | None = None) -> None:
        self.metadata = MetadataStore() if metadata is None else metadata
        self.offsets = OffsetStore() if offsets is None else offsets
        self.stores: Sequence[RecordStore] = (self.metadata, self.offsets)
        self._replay = {store.record_type.key: store.replay for store in self.stores}

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it. What belongs to a producer's
        transaction counts once that is committed."""
        self._replay[type(record.key)](record.key, record.value, producer_id)

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
        return DurableState(self.metadata.copy(), self.offsets.copy())

    def __len__(self) -> int:
        """The number of keys."""
        return sum(len(store) for store in self.stores)

    def facts(self) -> Iterator[Fact]:
        """Records that make this state of an empty one, each in a version that has all that its value says."""
        for store in self.stores:
            yield from store.facts()

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
            )
            for group_id in sorted({*self.group_ids(), *pending})
        }
