"""Which record of each key is the latest one: the first half of compaction.

Records of a transaction count when it was committed; those of an aborted one supersede nothing. So nothing at or
past the beginning of an open transaction is judged.

Source: Kafka's `Cleaner.buildOffsetMap`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from storage.errors import CorruptBatch, LogDamaged
from storage.producers.marker import COMMIT, end_of_transaction
from storage.producers.producer_state import Ended
from storage.record import Record
from storage.stored_batch import StoredBatch

MAX_KEYS: Final = 1_000_000
"""Of one pass, about 150 bytes each; what lies behind the last of them is the next pass's."""


class KeyOffsets:
    """What a pass over the dirty part of a log has found."""

    def __init__(self, from_offset: int) -> None:
        self.latest: dict[bytes, int] = {}
        """The offset of the latest record of each key."""
        self.aborted: list[Ended] = []
        self.end_offset = from_offset
        """Every record before it was seen, and of every transaction the end."""
        self.is_cut_short = False
        """Whether something was seen that lies behind it."""
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        return len(self.latest) + sum(len(transaction.latest) for transaction in self._open.values())

    def take(self, batch: StoredBatch) -> None:
        """Takes the next batch. Raises CorruptBatch.

        One that compaction has emptied begins no transaction: the end of its own may be gone already.
        """
        header = batch.header
        assert header.next_offset > self.end_offset, (batch.path, batch.position, self.end_offset)
        if header.is_control:
            for record in batch.records():
                self._end(header.producer_id, record)
        elif header.is_transactional and header.records_count:
            transaction = self._open.setdefault(header.producer_id, _Open(header.base_offset))
            transaction.latest |= _latest(batch.records())
        else:
            self.latest |= _latest(batch.records())
        self.end_offset = header.next_offset

    def _end(self, producer_id: int, marker: Record) -> None:
        kind = end_of_transaction(marker)
        transaction = self._open.pop(producer_id, None) if kind is not None else None
        if transaction is None:
            return
        if kind == COMMIT:
            for key, offset in transaction.latest.items():
                self.latest[key] = max(offset, self.latest.get(key, offset))
        else:
            self.aborted.append(Ended(producer_id, transaction.first_offset, marker.offset))

    def finish(self) -> None:
        """There is no more to take: what is in open transactions does not count, nor what lies behind the first of
        them. Consumers of committed records do not see it yet, so that it takes nothing from them."""
        if self._open:
            first_offset = min(transaction.first_offset for transaction in self._open.values())
            assert first_offset < self.end_offset, (first_offset, self.end_offset)
            self.end_offset = first_offset
            self.is_cut_short = True
            self.latest = {key: offset for key, offset in self.latest.items() if offset < first_offset}


class _Open:
    """A transaction whose end has not been met."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.latest: dict[bytes, int] = {}


def _latest(records: Sequence[Record]) -> dict[bytes, int]:
    return {record.key: record.offset for record in records if record.key is not None}


def map_keys(
    batches: Iterator[StoredBatch], from_offset: int, to_offset: int, max_keys: int, found: KeyOffsets
) -> Iterator[None]:
    """Fills `found` with what lies from one offset to another, a batch at a step.

    In: those of the sealed segments of a log; how many keys are enough. Raises LogDamaged, OSError.
    """
    for batch in batches:
        header = batch.header
        if header.next_offset <= from_offset:
            continue
        if header.base_offset >= to_offset or (found.latest and len(found) >= max_keys):
            break
        try:
            found.take(batch)
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error
        yield
    found.finish()
