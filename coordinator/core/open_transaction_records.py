"""Records of open transactions.

Such a record takes effect when its transaction is committed, and never when it is aborted. A later write to the
same key wins: a record outside of transactions, or one of another transaction that was committed first. A tombstone
removes the pending records of its key. Kafka compares the offsets of the records in the log. This module compares
their order of arrival instead, which is the order of the log, live as on load.

Source: KIP-98, Kafka's `OffsetMetadataManager.replay` and `replayEndTransactionMarker`.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingRecord(NamedTuple, Generic[K, V]):
    """A pending record. `is_superseded`: its key has a newer effective record, so it has no effect even after a
    commit.
    """

    producer_id: int
    key: K
    value: V
    is_superseded: bool


class EndedTransaction(NamedTuple, Generic[K, V]):
    """The result of a transaction: the records that take effect, in order, and the records that lost to newer ones.
    Both are empty after an abort.
    """

    committed: list[tuple[K, V]]
    superseded: list[tuple[K, V]]


class OpenTransactions(Generic[K, V]):
    """The open transactions of one log, by producer id: a producer has one transaction at a time. The cost of a
    call grows with the affected records, not with the other pending ones.
    """

    __slots__ = ("_last_number", "_newest", "_producers_by_key", "by_producer")

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[K, tuple[int, V]]] = {}
        """The last record of each key with its number, by producer id; has no empty maps. Read only."""
        self._producers_by_key: dict[K, set[int]] = {}
        """The producers with a pending record of a key; has no empty sets."""
        self._newest: dict[K, int] = {}
        """The number of the effective record of a key, if any pending record is older."""
        self._last_number = 0
        """The number of the last record; each record gets the next one."""

    def __bool__(self) -> bool:
        """Return whether any transaction is open."""
        return bool(self.by_producer)

    def find_producers(self, key: K) -> Collection[int]:
        """Return the producers with a pending record of a key."""
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
        """End a producer's transaction and return its result."""
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
                # Without pending records, nothing needs these numbers.
                newest.pop(key, None)
        return ended

    def iterate_pending(self) -> Iterator[PendingRecord[K, V]]:
        """Iterate over the pending records in order of arrival."""
        waiting = [
            (number, producer_id, key, value)
            for producer_id, records in self.by_producer.items()
            for key, (number, value) in records.items()
        ]
        for number, producer_id, key, value in sorted(waiting, key=lambda one: one[0]):
            yield PendingRecord(producer_id, key, value, self._newest.get(key, 0) > number)

    # The order of arrival, for a copy of the records in another object

    @property
    def last_number(self) -> int:
        """The number of the last record."""
        return self._last_number

    def select_records(self, is_selected: Callable[[K], bool]) -> dict[int, dict[K, tuple[int, V]]]:
        """Return the pending records of some keys with their numbers, by producer id."""
        selected = {
            producer_id: {key: record for key, record in records.items() if is_selected(key)}
            for producer_id, records in self.by_producer.items()
        }
        return {producer_id: records for producer_id, records in selected.items() if records}

    def select_newest(self, is_selected: Callable[[K], bool]) -> dict[K, int]:
        """Return the numbers of the effective records that are newer than a pending one, for some keys."""
        return {key: number for key, number in self._newest.items() if is_selected(key)}

    def adopt_arrivals(
        self, records: Mapping[int, Mapping[K, tuple[int, V]]], newest: Mapping[K, int], last_number: int
    ) -> None:
        """Adopt the order of arrival from the object that the records of these transactions come from.

        Args:
            records: The result of `select_records` of that object. It has all pending records of this one.
            newest: The result of `select_newest` for the same keys.
            last_number: The `last_number` of that object.

        Raises:
            ValueError: The pending records of this object differ from `records`.
        """
        adopted = {
            producer_id: {key: (records[producer_id][key][0], value) for key, (_, value) in pending.items()}
            for producer_id, pending in self.by_producer.items()
            if producer_id in records and records[producer_id].keys() >= pending.keys()
        }
        if adopted.keys() != self.by_producer.keys() or not newest.keys() <= self._producers_by_key.keys():
            raise ValueError("the order of arrival is that of other records")
        self.by_producer = adopted
        self._newest = dict(newest)
        self._last_number = last_number

    def check_invariants(self) -> None:
        """Raise AssertionError if the indexes do not match the records."""
        recounted: dict[K, set[int]] = {}
        for producer_id, records in self.by_producer.items():
            assert records, f"nothing of producer {producer_id} waits, but its place"
            for key in records:
                recounted.setdefault(key, set()).add(producer_id)
        assert self._producers_by_key == recounted, "the producers of a key"
        assert self._newest.keys() <= recounted.keys(), "what nothing is compared with"
