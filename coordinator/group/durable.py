"""The durable half of a shard: exactly what its log says, and nothing that the log does not say.

`replay` is its only writer. It runs on the records that handlers emit and on those that are read back on
load, so for every prefix of the log a load of it gives the state that the live shard had there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.group.value_version import EXPIRING_OFFSET_VALUE_VERSION
from coordinator.machine.outcome import Fact
from protocol.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

PartitionOffsets: TypeAlias = dict[int, OffsetCommitValue]
GroupOffsets: TypeAlias = dict[str, PartitionOffsets]

WIDEST_VERSION: Final = 4
"""Of both values: it has every field but the expire timestamp of an offset."""
NO_EXPIRE_TIMESTAMP: Final = -1


@dataclass(slots=True)
class DurableGroup:
    """What the log says of one group, for comparison: its last metadata and its offsets by (topic,
    partition)."""

    metadata: GroupMetadataValue | None
    offsets: dict[tuple[str, int], OffsetCommitValue]


class DurableState:
    """The latest value of every key: group metadata by group id, offsets by group, topic, partition."""

    __slots__ = ("metadata", "offsets")

    def __init__(self) -> None:
        self.metadata: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, GroupOffsets] = {}

    def replay(self, record: Fact) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            if value is None:
                self._remove_offset(key)
            else:
                assert isinstance(value, OffsetCommitValue), value
                partitions = self.offsets.setdefault(key.group, {}).setdefault(key.topic, {})
                partitions[key.partition] = value
        else:
            assert isinstance(key, GroupMetadataKey), key
            if value is None:
                self.metadata.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue), value
                self.metadata[key.group] = value

    def offset(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset of a partition; None when there is none."""
        partitions = self.offsets.get(group_id, {}).get(topic)
        return None if partitions is None else partitions.get(partition)

    def group_ids(self) -> list[str]:
        """Every group that the log knows, those with metadata first, each in the log's order."""
        return list(dict.fromkeys([*self.metadata, *self.offsets]))

    def copy(self) -> "DurableState":
        """The state as it is now, which later records do not change. Fast: values are shared, and never change."""
        copied = DurableState()
        copied.metadata = dict(self.metadata)
        copied.offsets = {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in self.offsets.items()
        }
        return copied

    def __len__(self) -> int:
        """The number of keys."""
        offsets = sum(len(partitions) for topics in self.offsets.values() for partitions in topics.values())
        return len(self.metadata) + offsets

    def facts(self) -> Iterator[Fact]:
        """Records that make this state of an empty one, each in a version that has all that its value says."""
        for group_id, metadata in self.metadata.items():
            yield Fact(GroupMetadataKey(group=group_id), metadata, WIDEST_VERSION)
        for group_id, topics in self.offsets.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                    expires = value.expire_timestamp != NO_EXPIRE_TIMESTAMP
                    yield Fact(key, value, EXPIRING_OFFSET_VALUE_VERSION if expires else WIDEST_VERSION)

    def snapshot(self) -> dict[str, DurableGroup]:
        """All of it, for comparison with another one."""
        return {
            group_id: DurableGroup(
                self.metadata.get(group_id),
                {
                    (topic, partition): value
                    for topic, partitions in self.offsets.get(group_id, {}).items()
                    for partition, value in partitions.items()
                },
            )
            for group_id in sorted(self.group_ids())
        }

    def _remove_offset(self, key: OffsetCommitKey) -> None:
        topics = self.offsets.get(key.group)
        partitions = None if topics is None else topics.get(key.topic)
        if topics is None or partitions is None:
            return
        partitions.pop(key.partition, None)
        if not partitions:
            del topics[key.topic]
        if not topics:
            del self.offsets[key.group]
