"""Records of transactions whose end has not come yet.

Such a record counts once its transaction is committed, and never when it is aborted. What was written for the same
key after it is newer and stays: a record outside of transactions, or one of another transaction that was committed
first. A tombstone takes the pending records of its key along.

Kafka compares the offsets that the records have in the log. Here the order in which they come says the same: it is
that of the log, live as on load.

Source: KIP-98, Kafka's `OffsetMetadataManager.replay` and `replayEndTransactionMarker`.
"""

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingRecord(NamedTuple, Generic[K, V]):
    """A record that may count some day; if not even then, something newer stands for its key already."""

    producer_id: int
    key: K
    value: V
    is_superseded: bool


class EndedTransaction(NamedTuple, Generic[K, V]):
    """What a transaction comes to: the records that count from now on, in order, and those that never will, since
    something newer stands for their keys. Of one that is aborted neither is told."""

    committed: list[tuple[K, V]]
    superseded: list[tuple[K, V]]


class OpenTransactions(Generic[K, V]):
    """The open transactions of one log, by producer id: a producer has one transaction at a time. Every call
    takes as long as it has records to look at, however many others wait."""

    __slots__ = ("_last_number", "_newest", "_producers_by_key", "by_producer")

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[K, tuple[int, V]]] = {}
        """The last record of each key, behind its number; never empty. To be read, not written."""
        self._producers_by_key: dict[K, set[int]] = {}
        """Who has a record of a key; never empty."""
        self._newest: dict[K, int] = {}
        """The number of the record that stands for a key, where any that waits is older."""
        self._last_number = 0
        """How many there were so far: each gets the next number."""

    def __bool__(self) -> bool:
        """Whether any record waits for the end of its transaction."""
        return bool(self.by_producer)

    def find_producers(self, key: K) -> Collection[int]:
        """In whose transactions a record of a key waits."""
        return self._producers_by_key.get(key, ())

    def add_record(self, producer_id: int, key: K, value: V) -> None:
        """Add a record of a transaction."""
        self._last_number += 1
        self.by_producer.setdefault(producer_id, {})[key] = self._last_number, value
        self._producers_by_key.setdefault(key, set()).add(producer_id)

    def supersede(self, key: K) -> None:
        """Apply a record outside of transactions: pending records of its key are older."""
        if key in self._producers_by_key:
            self._last_number += 1
            self._newest[key] = self._last_number

    def remove_key(self, key: K) -> None:
        """Apply a tombstone: remove all pending records of its key."""
        for producer_id in self._producers_by_key.pop(key, ()):
            pending = self.by_producer[producer_id]
            del pending[key]
            if not pending:
                del self.by_producer[producer_id]
        self._newest.pop(key, None)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> EndedTransaction[K, V]:
        """End a producer's transaction. Out: the records that count now, and those that never will."""
        ended: EndedTransaction[K, V] = EndedTransaction([], [])
        committed, superseded = ended
        newest, producers_by_key = self._newest, self._producers_by_key
        for key, (number, value) in self.by_producer.pop(producer_id, {}).items():
            producers = producers_by_key.pop(key)
            if is_committed:
                is_newest = not newest or newest.get(key, 0) < number
                (committed if is_newest else superseded).append((key, value))
                if is_newest and len(producers) > 1:
                    newest[key] = number
            if len(producers) > 1:
                producers.remove(producer_id)
                producers_by_key[key] = producers
            elif newest:
                # Once nothing waits, nothing is compared.
                newest.pop(key, None)
        return ended

    def iterate_pending(self) -> Iterator[PendingRecord[K, V]]:
        """What waits, in the order in which it came."""
        waiting = [
            (number, producer_id, key, value)
            for producer_id, records in self.by_producer.items()
            for key, (number, value) in records.items()
        ]
        for number, producer_id, key, value in sorted(waiting, key=lambda one: one[0]):
            yield PendingRecord(producer_id, key, value, self._newest.get(key, 0) > number)

    def check_invariants(self) -> None:
        """Raise AssertionError when what is derived is not what the records say."""
        recounted: dict[K, set[int]] = {}
        for producer_id, records in self.by_producer.items():
            assert records, f"nothing of producer {producer_id} waits, but its place"
            for key in records:
                recounted.setdefault(key, set()).add(producer_id)
        assert self._producers_by_key == recounted, "the producers of a key"
        assert self._newest.keys() <= recounted.keys(), "what nothing is compared with"
