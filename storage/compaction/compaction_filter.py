"""Selects the records and batches that survive compaction, after it has found the latest offset of each key.

Records of a transaction count when it is committed; those of an aborted one supersede nothing. Therefore
compaction leaves all records from the beginning of the first open transaction on.

A record is removed if a later one has its key or if its transaction was aborted. A tombstone is also removed
when its grace period is over. That period begins when compaction first meets the tombstone. The time of its
end is then written into the batch (the *delete horizon*), so a consumer that reads at least that often sees
the tombstone. A marker is removed in the same way, once a pass meets no batch of its transaction before it,
not even an empty one. From then on the index of aborted transactions omits it. An abort marker is removed only
in a later pass, because a consumer that got the index entry would wait for the marker past later records.

A batch without records is removed too, with two exceptions. The last batch of a producer that may still be
active stays, because its sequence number, or the epoch of its marker, must not be forgotten. The last batch of
a segment stays for its offsets.

Source: Kafka's `Cleaner.buildOffsetMap`, `Cleaner.cleanInto`, `CleanedTransactionMetadata`,
`MemoryRecords.filterTo`; KIP-534.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from storage.batch import BatchHeader, rewrite_batch
from storage.compaction.compaction_steps import LONG_RECORDS, CompactionSteps, call, is_long
from storage.producers.end_transaction_marker import COMMIT, parse_marker_type
from storage.producers.producer_state import CompletedTransaction
from storage.record import Record
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.stored_batch import StoredBatch
from storage.transaction_index import AbortedTransaction, AbortedTransactions

MAX_KEYS: Final = 1_000_000
"""The maximum number of keys of one pass, about 150 bytes each. The next pass handles the records after the
last of them."""

IsLastOfProducer = Callable[[BatchHeader], bool]
"""Returns whether a batch is the last one of a producer that the log still knows."""


class KeyOffsetMap:
    """The latest offset of each key in the dirty part of a log."""

    def __init__(self, from_offset: int) -> None:
        self.latest: dict[bytes, int] = {}
        """The offset of the latest record of each key."""
        self.aborted: list[CompletedTransaction] = []
        self.end_offset = from_offset
        """All records and all ends of transactions before this offset were added."""
        self.is_cut_short = False
        """Whether batches at or after `end_offset` were added."""
        self._unfinished: dict[int, _UnfinishedTransaction] = {}

    def __len__(self) -> int:
        return len(self.latest) + sum(len(transaction.latest) for transaction in self._unfinished.values())

    def add_batch(self, batch: StoredBatch) -> None:
        """Add the next batch. Raises CorruptBatch.

        A transactional batch without records, which compaction has emptied, begins no transaction: the marker
        of its transaction may be removed already.
        """
        header = batch.header
        assert header.next_offset > self.end_offset, (batch.path, batch.position, self.end_offset)
        if header.is_control:
            for record in batch.records():
                self._end_transaction(header.producer_id, record)
        elif header.is_transactional and header.records_count:
            transaction = self._unfinished.setdefault(
                header.producer_id, _UnfinishedTransaction(header.base_offset)
            )
            transaction.latest |= _find_latest_offsets(batch.records())
        else:
            self.latest |= _find_latest_offsets(batch.records())
        self.end_offset = header.next_offset

    def has_long_transaction(self, producer_id: int) -> bool:
        """Return whether a producer's transaction has so many keys that its end takes long."""
        transaction = self._unfinished.get(producer_id)
        return transaction is not None and len(transaction.latest) > LONG_RECORDS

    def _end_transaction(self, producer_id: int, marker: Record) -> None:
        kind = parse_marker_type(marker)
        transaction = self._unfinished.pop(producer_id, None) if kind is not None else None
        if transaction is None:
            return
        if kind == COMMIT:
            for key, offset in transaction.latest.items():
                self.latest[key] = max(offset, self.latest.get(key, offset))
        else:
            self.aborted.append(CompletedTransaction(producer_id, transaction.first_offset, marker.offset))

    def finish(self) -> None:
        """End the input. Records at or after the first open transaction do not replace earlier ones.

        Consumers of committed records do not see them yet.
        """
        if self._unfinished:
            first_offset = min(transaction.first_offset for transaction in self._unfinished.values())
            assert first_offset < self.end_offset, (first_offset, self.end_offset)
            self.end_offset = first_offset
            self.is_cut_short = True
            self.latest = {key: offset for key, offset in self.latest.items() if offset < first_offset}


class _UnfinishedTransaction:
    """A transaction without a known end."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.latest: dict[bytes, int] = {}


def _find_latest_offsets(records: Sequence[Record]) -> dict[bytes, int]:
    return {record.key: record.offset for record in records if record.key is not None}


def map_keys(
    batches: Iterator[StoredBatch], from_offset: int, to_offset: int, max_keys: int, offset_map: KeyOffsetMap
) -> CompactionSteps:
    """Add the records between two offsets to `offset_map`, one batch at a step.

    `batches` are those of the sealed segments. The map ends at `max_keys` keys. Raises LogDamaged, OSError.
    """
    for batch in batches:
        header = batch.header
        if header.next_offset <= from_offset:
            continue
        if header.base_offset >= to_offset or (offset_map.latest and len(offset_map) >= max_keys):
            break
        ends_long_transaction = header.is_control and offset_map.has_long_transaction(header.producer_id)
        try:
            yield from call(
                partial(offset_map.add_batch, batch), is_long=ends_long_transaction or is_long(batch)
            )
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error
        yield None
    yield from call(offset_map.finish, is_long=len(offset_map) > LONG_RECORDS)


class CompactionTerms(NamedTuple):
    """The parameters of one pass: its time, and the records to keep."""

    now_ms: int
    delete_retention_ms: int
    is_last_of_producer: IsLastOfProducer


class CompactionFilter:
    """Selects the surviving records of the batches of a log. It needs all batches, from the first, in order."""

    def __init__(self, keys: KeyOffsetMap, terms: CompactionTerms, aborted: AbortedTransactions) -> None:
        """Create a filter from the latest records by key and the aborted transactions of the indexes."""
        self._keys = keys
        self._index = aborted
        self._latest = keys.latest
        self._end_offset = keys.end_offset
        self._terms = terms
        self._aborted_until: dict[int, int] = {}
        self._aborted = _sort_by_first_offset(keys, aborted)
        self._producers_with_batch: set[int] = set()
        """Producers with a batch of their latest transaction and no marker of it so far."""
        self._indexed_markers: set[int] = set()
        """Offsets of abort markers that the index of aborted transactions still contains."""
        self._latest_met_count = 0
        self._next_offset = 0
        self.records_before = 0
        self.records_after = 0
        self.records_without_key = 0
        """The number of records without a key. A compacted log does not keep them."""

    def is_last_of_producer(self, batch: StoredBatch) -> bool:
        """Return whether a batch must stay because it is the last one of a known producer. Belongs to the
        owner's thread."""
        return batch.header.producer_id >= 0 and self._terms.is_last_of_producer(batch.header)

    def filter_batch(self, batch: StoredBatch, *, keeps_range: bool) -> bytes | None:
        """Return the batch with its surviving records, or None if it is removed. `keeps_range` keeps a batch
        without records.

        Raises CorruptBatch.
        """
        header = batch.header
        assert header.base_offset >= self._next_offset, (batch.path, batch.position, self._next_offset)
        self._next_offset = header.next_offset
        self.records_before += header.records_count
        is_of_no_transaction = header.is_control and header.producer_id < 0
        if header.base_offset >= self._end_offset or is_of_no_transaction:
            self.records_after += header.records_count
            return batch.data
        self._enter_aborted_transactions(header.base_offset)
        records = batch.records()
        horizon_ms = header.delete_horizon_ms
        is_past_horizon = horizon_ms is not None and self._terms.now_ms >= horizon_ms
        if header.is_control:
            needs_horizon = not self._closes_transaction(header.producer_id, records)
            is_kept = not is_past_horizon or not needs_horizon or self._index.has_marker(header.base_offset)
            kept = records if is_kept else []
        else:
            if header.is_transactional:
                self._producers_with_batch.add(header.producer_id)
            kept = self._select_records(batch, records, is_past_horizon)
            needs_horizon = any(record.value is None for record in kept)
        self.records_after += len(kept)
        if not kept and not keeps_range:
            return None
        if kept and needs_horizon and horizon_ms is None:
            return rewrite_batch(header, kept, self._terms.now_ms + self._terms.delete_retention_ms)
        if len(kept) == header.records_count:
            return batch.data
        return rewrite_batch(header, kept, horizon_ms)

    def _closes_transaction(self, producer_id: int, records: list[Record]) -> bool:
        """Return whether a batch of the marker's transaction came before the marker."""
        if producer_id not in self._producers_with_batch:
            return False
        self._producers_with_batch.discard(producer_id)
        self._indexed_markers.update(record.offset for record in records)
        return True

    def find_still_aborted(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions for the index of a new segment with the survivors of a range of
        offsets."""
        return [
            aborted
            for aborted in self._index.find_ended_within(first_offset, end_offset)
            if aborted.last_offset in self._indexed_markers or aborted.last_offset >= self._end_offset
        ]

    def _select_records(
        self, batch: StoredBatch, records: list[Record], is_past_horizon: bool
    ) -> list[Record]:
        header = batch.header
        if header.is_transactional and self._aborted_until.get(header.producer_id, -1) > header.last_offset:
            return []
        latest = self._latest
        kept = []
        for record in records:
            key = record.key
            if key is None:
                self.records_without_key += 1
                continue
            latest_offset = latest.get(key, -1)
            if record.offset >= latest_offset:
                self._latest_met_count += record.offset == latest_offset
                if not (is_past_horizon and record.value is None):
                    kept.append(record)
        return kept

    def finish(self) -> None:
        """Check that the pass has seen every record that replaced an earlier one."""
        assert self._keys.is_cut_short or self._latest_met_count >= len(self._latest), self._latest_met_count
        assert self.records_after <= self.records_before, (self.records_before, self.records_after)

    def _enter_aborted_transactions(self, base_offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= base_offset:
            aborted = self._aborted.pop()
            self._aborted_until[aborted.producer_id] = aborted.marker_offset


def _sort_by_first_offset(keys: KeyOffsetMap, indexed: AbortedTransactions) -> list[CompletedTransaction]:
    """Return the aborted transactions, the one with the greatest first offset first."""
    found = {
        CompletedTransaction(*aborted[:3]) for aborted in indexed if aborted.last_offset < keys.end_offset
    }
    return sorted(found.union(keys.aborted), key=lambda ended: ended.first_offset, reverse=True)
