"""What of each batch survives compaction: the second half.

A record goes when a later one has its key, when its transaction was aborted, and, being a tombstone, when its grace
period is over. That period begins when compaction first meets the tombstone: the time of its end is then written
into the batch (the *delete horizon*), so that every consumer who reads at least that often sees the tombstone. A
marker goes in the same way, once a pass meets no batch of its transaction before it, not even an empty one. The
index of aborted transactions ceases to name one then, and an abort marker goes only in a later pass: a consumer who
is told of it would wait for it past what came after.

A batch of which nothing is left goes too, unless it is the last one of a producer that may still be there (its
sequence number must not be forgotten, nor the epoch of a marker that is all there is of it) or the last one of its
segment (its offsets must not).

Source: Kafka's `Cleaner.cleanInto`, `CleanedTransactionMetadata`, `MemoryRecords.filterTo`; KIP-534.
"""

from collections.abc import Callable
from typing import NamedTuple

from storage.batch import BatchHeader, rewrite_batch
from storage.compaction.key_offsets import KeyOffsets
from storage.producers.producer_state import Ended
from storage.record import Record
from storage.stored_batch import StoredBatch
from storage.transaction_index import AbortedTransaction, AbortedTransactions

IsLastOfProducer = Callable[[BatchHeader], bool]
"""Whether a batch is the last one of a producer still known."""


class Terms(NamedTuple):
    """Under which a pass is made."""

    now_ms: int
    delete_retention_ms: int
    is_last_of_producer: IsLastOfProducer


class Survivors:
    """Judges the batches of a log, all of them from the first, in order."""

    def __init__(self, keys: KeyOffsets, terms: Terms, aborted: AbortedTransactions) -> None:
        """In: the latest records, and what the indexes of the log name."""
        self._keys = keys
        self._index = aborted
        self._latest = keys.latest
        self._end_offset = keys.end_offset
        self._terms = terms
        self._aborted_until: dict[int, int] = {}
        self._aborted = _by_beginning(keys, aborted)
        self._met: set[int] = set()
        """Producers of whose latest transaction a batch was met, and no marker."""
        self._named: set[int] = set()
        """Where abort markers lie that the index goes on naming."""
        self._latest_met = 0
        self._next_offset = 0
        self.records_before = 0
        self.records_after = 0
        self.keyless = 0
        """Records without a key, which have no place in a compacted log."""

    def of(self, batch: StoredBatch, *, keeps_range: bool) -> bytes | None:
        """The batch as it stays; None when it goes. `keeps_range`: its offsets stay in any case.

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
        self._begin_aborted(header.base_offset)
        records = batch.records()
        horizon_ms = header.delete_horizon_ms
        is_past_horizon = horizon_ms is not None and self._terms.now_ms >= horizon_ms
        if header.is_control:
            needs_horizon = not self._closes_something(header.producer_id, records)
            is_kept = not is_past_horizon or not needs_horizon or self._index.has_marker(header.base_offset)
            kept = records if is_kept else []
        else:
            if header.is_transactional:
                self._met.add(header.producer_id)
            kept = self._kept(batch, records, is_past_horizon)
            needs_horizon = any(record.value is None for record in kept)
        self.records_after += len(kept)
        if not kept and not self._keeps_empty(batch, keeps_range):
            return None
        if kept and needs_horizon and horizon_ms is None:
            return rewrite_batch(header, kept, self._terms.now_ms + self._terms.delete_retention_ms)
        if len(kept) == header.records_count:
            return batch.data
        return rewrite_batch(header, kept, horizon_ms)

    def _closes_something(self, producer_id: int, records: list[Record]) -> bool:
        """Whether a batch of a marker's transaction was met before it."""
        if producer_id not in self._met:
            return False
        self._met.discard(producer_id)
        self._named.update(record.offset for record in records)
        return True

    def still_aborted(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Which transactions the index of a new segment names, that holds what survived of a range of offsets."""
        return [
            aborted
            for aborted in self._index.ended_within(first_offset, end_offset)
            if aborted.last_offset in self._named or aborted.last_offset >= self._end_offset
        ]

    def _kept(self, batch: StoredBatch, records: list[Record], is_past_horizon: bool) -> list[Record]:
        header = batch.header
        if header.is_transactional and self._aborted_until.get(header.producer_id, -1) > header.last_offset:
            return []
        latest = self._latest
        kept = []
        for record in records:
            key = record.key
            if key is None:
                self.keyless += 1
                continue
            latest_offset = latest.get(key, -1)
            if record.offset >= latest_offset:
                self._latest_met += record.offset == latest_offset
                if not (is_past_horizon and record.value is None):
                    kept.append(record)
        return kept

    def finish(self) -> None:
        """There are no more: every record that another one was dropped for has been met, and judged itself."""
        assert self._keys.is_cut_short or self._latest_met >= len(self._latest), self._latest_met
        assert self.records_after <= self.records_before, (self.records_before, self.records_after)

    def _begin_aborted(self, base_offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= base_offset:
            aborted = self._aborted.pop()
            self._aborted_until[aborted.producer_id] = aborted.marker_offset

    def _keeps_empty(self, batch: StoredBatch, keeps_range: bool) -> bool:
        header = batch.header
        return keeps_range or (header.producer_id >= 0 and self._terms.is_last_of_producer(header))


def _by_beginning(keys: KeyOffsets, indexed: AbortedTransactions) -> list[Ended]:
    """Aborted transactions from the one that begins last to the one that begins first."""
    found = {Ended(*aborted[:3]) for aborted in indexed if aborted.last_offset < keys.end_offset}
    return sorted(found.union(keys.aborted), key=lambda ended: ended.first_offset, reverse=True)
