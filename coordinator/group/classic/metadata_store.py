"""What the log says of classic groups."""

from collections.abc import Collection, Iterator
from typing import Final, Self

from coordinator.group.record_store import fact_of
from coordinator.machine.outcome import Fact
from protocol.records import GroupMetadataKey, GroupMetadataValue
from protocol.records.record_types import GROUP_METADATA


class MetadataStore:
    """The last metadata of every classic group, by group id."""

    __slots__ = ("_by_group",)

    record_types: Final = (GROUP_METADATA,)

    def __init__(self) -> None:
        self._by_group: dict[str, GroupMetadataValue] = {}

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, producer_id: int) -> None:
        """The later record of a group wins, a tombstone removes it."""
        if value is None:
            self._by_group.pop(key.group, None)
        else:
            self._by_group[key.group] = value

    def get(self, group_id: str) -> GroupMetadataValue | None:
        """The metadata of a group; None when there is none."""
        return self._by_group.get(group_id)

    def group_ids(self) -> Collection[str]:
        """Every group that has metadata."""
        return self._by_group.keys()

    def __contains__(self, group_id: str) -> bool:
        """Whether a group has metadata."""
        return group_id in self._by_group

    def __len__(self) -> int:
        return len(self._by_group)

    def facts(self) -> Iterator[Fact]:
        """A record for each group."""
        for group_id, value in self._by_group.items():
            yield fact_of(GROUP_METADATA, GroupMetadataKey(group=group_id), value)

    def copy(self) -> Self:
        """What it holds now."""
        copied = type(self)()
        copied._by_group = dict(self._by_group)
        return copied
