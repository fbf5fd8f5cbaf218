"""Offsets of transactions whose end has not been read yet.

Such an offset counts once the transaction's commit marker is read, and not at all after an abort marker. What was
written for the same key between the offset and the marker is newer and stays: a plain commit, the offset of
another transaction that ended first, or a tombstone. An offset whose transaction has no end in the log never
counts: there is no transaction coordinator here that could still commit it.

Source: KIP-98, Kafka's `OffsetMetadataManager`.
"""

from collections.abc import Iterator

from storage.record import Record


class OpenTransactions:
    """Those of one partition of `__consumer_offsets`, by producer, while it is read."""

    __slots__ = ("_newest", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, list[Record]] = {}
        self._newest: dict[bytes | None, int] = {}
        """Offset of the record that stands for a key, as far as one of these transactions could be older."""

    def __bool__(self) -> bool:
        """Whether any transaction is open."""
        return bool(self._pending)

    def add(self, producer_id: int, records: list[Record]) -> None:
        """Records of a transaction, as they stand in the log."""
        self._pending.setdefault(producer_id, []).extend(records)

    def passed(self, records: list[Record]) -> None:
        """Records outside of transactions, read while any is open."""
        for record in records:
            self._newest[record.key] = record.offset

    def end(self, producer_id: int, *, is_committed: bool) -> Iterator[Record]:
        """Ends a producer's transaction: the records that count from now on, in order."""
        pending = self._pending.pop(producer_id, [])
        if is_committed:
            for record in pending:
                if self._newest.get(record.key, -1) < record.offset:
                    self._newest[record.key] = record.offset
                    yield record
        if not self._pending:
            self._newest.clear()
