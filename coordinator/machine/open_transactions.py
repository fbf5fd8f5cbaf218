"""Records of transactions whose end has not come yet.

Such a record counts once its transaction is committed, and never when it is aborted. What was written for the same
key after it is newer and stays: a record outside of transactions, or one of another transaction that was committed
first. A tombstone takes the pending records of its key along.

Kafka compares the offsets that the records have in the log. Here the order in which they come says the same: it is
that of the log, live as on load.

Source: KIP-98, Kafka's `OffsetMetadataManager.replay` and `replayEndTransactionMarker`.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Pending(NamedTuple, Generic[K, V]):
    """A record that may count some day; if not even then, something newer stands for its key already."""

    producer_id: int
    key: K
    value: V
    is_superseded: bool


class OpenTransactions(Generic[K, V]):
    """Those of one log, by producer id: a producer has one transaction at a time."""

    __slots__ = ("_newest", "_records", "by_producer")

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[K, tuple[int, V]]] = {}
        """The last record of each key, behind its number; never empty. To be read, not written."""
        self._newest: dict[K, int] = {}
        """The number of the record that stands for a key, as far as a pending one could be older."""
        self._records = 0
        """How many there were so far: each gets the next number."""

    def __bool__(self) -> bool:
        """Whether any record waits for the end of its transaction."""
        return bool(self.by_producer)

    def add(self, producer_id: int, key: K, value: V) -> None:
        """A record of a transaction."""
        self._records += 1
        self.by_producer.setdefault(producer_id, {})[key] = self._records, value

    def passed(self, key: K) -> None:
        """A record outside of transactions, while any is open."""
        self._records += 1
        self._newest[key] = self._records

    def removed(self, key: K) -> None:
        """A tombstone, while any transaction is open."""
        for producer_id, pending in list(self.by_producer.items()):
            pending.pop(key, None)
            if not pending:
                del self.by_producer[producer_id]
        self._forget()

    def end(self, producer_id: int, *, is_committed: bool) -> list[tuple[K, V]]:
        """A producer's transaction ends: the records that count from now on, in order."""
        counting = []
        for key, (number, value) in self.by_producer.pop(producer_id, {}).items():
            if is_committed and self._newest.get(key, 0) < number:
                self._newest[key] = number
                counting.append((key, value))
        self._forget()
        return counting

    def pending(self) -> Iterator[Pending[K, V]]:
        """What waits, in the order in which it came."""
        waiting = [
            (number, producer_id, key, value)
            for producer_id, records in self.by_producer.items()
            for key, (number, value) in records.items()
        ]
        for number, producer_id, key, value in sorted(waiting, key=lambda one: one[0]):
            yield Pending(producer_id, key, value, self._newest.get(key, 0) > number)

    def _forget(self) -> None:
        """Once nothing waits, nothing is compared."""
        if not self.by_producer:
            self._newest.clear()
