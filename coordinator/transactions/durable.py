"""The durable half of a shard: exactly what its log says, and nothing that the log does not say.

`replay` is its only writer. It runs on the records that handlers emit and on those that are read back on load, so
for every prefix of the log a load of it gives the state that the live shard had there.
"""

from collections.abc import Iterator

from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from coordinator.transactions.record_codec import UnknownValue, fact_of
from protocol.records.transaction_state import TransactionLogValue


class DurableState:
    """The newest value of each transactional id. Values are never changed."""

    __slots__ = ("skipped", "values")

    def __init__(self, values: dict[str, TransactionLogValue] | None = None) -> None:
        self.values: dict[str, TransactionLogValue] = {} if values is None else values
        """To be read, not written."""
        self.skipped: list[UnknownValue] = []
        """Values of versions that are not known here; their records stay in the log."""

    def replay(self, record: Fact, _: int = NO_PRODUCER_ID) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it. Records of this log belong to no
        transaction."""
        value = record.value
        if type(value) is TransactionLogValue:
            self.values[record.key.transactional_id] = value
        elif value is None:
            self.values.pop(record.key.transactional_id, None)
        else:
            assert isinstance(value, UnknownValue), value
            self.values.pop(record.key.transactional_id, None)
            self.skipped.append(value)

    def copy(self) -> "DurableState":
        """The state as it is now, which later records do not change."""
        return DurableState(dict(self.values))

    def __len__(self) -> int:
        """The number of transactional ids."""
        return len(self.values)

    def facts(self) -> Iterator[Fact]:
        """Records that make this state of an empty one, each in a version that has all that its value says."""
        for transactional_id, value in self.values.items():
            yield fact_of(transactional_id, value)
