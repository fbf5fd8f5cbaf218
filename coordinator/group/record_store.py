"""What the log says of one type of record, or of a few that belong together: a part of the durable half of a
shard."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, Self

from coordinator.machine.outcome import Fact
from protocol.records.record_type import ServedType


class RecordStore(Protocol):
    """`replay` is its only writer; whatever a store derives from its records follows there."""

    @property
    def record_types(self) -> Sequence[ServedType]:
        """Whose records it keeps."""

    def replay(self, key: Any, value: Any, producer_id: int) -> None:
        """Takes the next record of the log; a value of None is a tombstone. `producer_id` is that of the
        transaction which it belongs to, NO_PRODUCER_ID for none; most types have nothing to do with those."""

    def group_ids(self) -> Collection[str]:
        """The groups of its records, in the order in which they came."""

    def __contains__(self, group_id: str) -> bool:
        """Whether it has any of a group."""

    def __len__(self) -> int:
        """The number of keys that have a value."""

    def facts(self) -> Iterator[Fact]:
        """Records that make what it holds of nothing."""

    def copy(self) -> Self:
        """What it holds now, which later records do not change. Fast: values are shared, and never change."""


def fact_of(record_type: ServedType, key: Any, value: Any) -> Fact:
    """A record with a value, as it is written."""
    return Fact(key, value, record_type.version_of(value))
