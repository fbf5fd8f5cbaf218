"""All producers of one partition, packed: a producer with one batch takes about 60 bytes.

A client chooses how many producer ids it writes with, and each is remembered for `producer.id.expiration.ms`.
The table therefore stores rows of bytes instead of objects. It is a hash table that grows by one bucket at a
time (linear hashing): an insertion moves the rows of at most one bucket. A bucket is an immutable `bytes`
object of whole rows, so a copy of the table is a copy of the list of buckets.

A row has the layout of an entry in a snapshot file:

    id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64 |
    coordinator epoch int32 | first offset of the open transaction int64

-1 stands for a missing value. A row holds only the last batch of its producer, and one timestamp for both.
Further batches (a producer has up to five) are packed beside the rows, by producer id. The most recently used
producers are kept as objects, and packed when others take their place.

Source: Kafka's `ProducerStateEntry`, `BatchMetadata`, `ProducerSnapshot.json`.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

MAX_BATCHES_KEPT: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
NO_EPOCH: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

ROW: Final = Struct(">qhiqiqiq")
_BATCH: Final = Struct(">iiqqq")
_NONE: Final = -1


class SequencedBatch(NamedTuple):
    """One batch of a producer. The time is the batch's greatest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """The current epoch of one producer, its last batches in that epoch (oldest first), and the first offset
    of its open transaction."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        """The coordinator epoch of the last marker."""
        self.batches: tuple[SequencedBatch, ...] = ()
        self.last_timestamp_ms = -1
        self.transaction_offset: int | None = None

    def add_batch(self, batch: SequencedBatch) -> None:
        """Remember a batch, and forget the oldest one when there are more than `MAX_BATCHES_KEPT`."""
        self.batches = (*self.batches[1 - MAX_BATCHES_KEPT :], batch)


def pack_row(producer_id: int, entry: ProducerEntry) -> bytes:
    """Return the row of a producer."""
    last = entry.batches[-1] if entry.batches else None
    return ROW.pack(
        producer_id,
        entry.epoch,
        _NONE if last is None else last.last_sequence,
        _NONE if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.first_offset,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        _NONE if entry.transaction_offset is None else entry.transaction_offset,
    )


def unpack_row(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    """Return the producer id and the entry of an unpacked row."""
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, first = fields
    entry = ProducerEntry()
    entry.epoch, entry.coordinator_epoch = epoch, coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    if last_offset >= 0:
        entry.batches = (_restore_batch(last_sequence, last_offset, delta, timestamp_ms),)
    entry.transaction_offset = first if first >= 0 else None
    return producer_id, entry


def pack_batches(entry: ProducerEntry) -> bytes:
    """Return the batches of a producer; empty when its row alone restores them."""
    batches = entry.batches
    if not batches:
        return b""
    last = batches[-1]
    delta = last.last_offset - last.first_offset
    in_row = _restore_batch(last.last_sequence, last.last_offset, delta, entry.last_timestamp_ms)
    if len(batches) == 1 and last == in_row and last.last_offset >= 0:
        return b""
    return b"".join([_BATCH.pack(*batch) for batch in batches])


def unpack_batches(data: bytes) -> tuple[SequencedBatch, ...]:
    """Return the batches that `pack_batches` packed."""
    return tuple(map(SequencedBatch._make, _BATCH.iter_unpack(data)))


def _restore_batch(last_sequence: int, last_offset: int, delta: int, timestamp_ms: int) -> SequencedBatch:
    """Return the batch of a row. Sequence numbers start again at 0 after `MAX_SEQUENCE`."""
    first_sequence = (last_sequence - delta) & MAX_SEQUENCE if last_sequence >= 0 else last_sequence
    return SequencedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)


_ROWS_PER_BUCKET: Final = 16
"""The maximum average number of rows in a bucket. A lookup searches one bucket, and a change copies it."""
_SHRINKS_BELOW: Final = 4
_KEY: Final = Struct(">q")
_TIMESTAMP: Final = 5
_TRANSACTION: Final = 7
"""Positions in an unpacked row."""
_MAX_RECENT: Final = 16
EXPIRE_SCAN_ROWS: Final = 50_000
"""The maximum number of rows that one call of `expire` examines: about 10 ms."""


class ProducerRows:
    """The rows of a table as they were at one moment; may be read in any thread."""

    __slots__ = ("_buckets", "_count")

    def __init__(self, buckets: list[bytes], count: int) -> None:
        self._buckets = buckets
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for bucket in self._buckets:
            yield from ROW.iter_unpack(bucket)

    def encode(self) -> bytes:
        """Return all rows, one after the other."""
        return b"".join(self._buckets)


class ProducerTable:
    """A mapping from producer id to `ProducerEntry`. After a change of an entry, call `store_entry`."""

    __slots__ = ("_batches", "_buckets", "_count", "_expire_from", "_mask", "_recent")

    def __init__(self) -> None:
        self._buckets: list[bytes] = [b""]
        self._mask = 0
        """The smallest mask of low one-bits that covers all bucket numbers."""
        self._count = 0
        self._batches: dict[int, bytes] = {}
        self._expire_from = 0
        self._recent: dict[int, ProducerEntry] = {}
        """The most recently used entries. They may be newer than their rows."""

    def __len__(self) -> int:
        return self._count

    def find_entry(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer; None when it is unknown."""
        entry = self._recent.get(producer_id)
        if entry is not None:
            return entry
        key = _KEY.pack(producer_id)
        bucket = self._buckets[self._find_bucket(key)]
        position = _find_row(bucket, key)
        if position < 0:
            return None
        _, entry = unpack_row(ROW.unpack_from(bucket, position))
        batches = self._batches.get(producer_id)
        if batches is not None:
            entry.batches = unpack_batches(batches)
        self._keep_recent(producer_id, entry)
        return entry

    def store_entry(self, producer_id: int, entry: ProducerEntry) -> None:
        """Insert or replace the entry of a producer."""
        if producer_id in self._recent:
            self._recent[producer_id] = entry
        else:
            self._pack_entry(producer_id, entry)
            self._keep_recent(producer_id, entry)

    def _keep_recent(self, producer_id: int, entry: ProducerEntry) -> None:
        recent = self._recent
        recent[producer_id] = entry
        if len(recent) > _MAX_RECENT:
            oldest = next(iter(recent))
            self._pack_entry(oldest, recent.pop(oldest))

    def _pack_recent(self) -> None:
        for producer_id, entry in self._recent.items():
            self._pack_entry(producer_id, entry)

    def _pack_entry(self, producer_id: int, entry: ProducerEntry) -> None:
        """Write the row of a producer, and the batches that it does not hold."""
        key, row = _KEY.pack(producer_id), pack_row(producer_id, entry)
        index = self._find_bucket(key)
        bucket = self._buckets[index]
        position = _find_row(bucket, key)
        if position < 0:
            self._buckets[index] = bucket + row
            self._count += 1
            if self._count > _ROWS_PER_BUCKET * len(self._buckets):
                self._split()
        else:
            self._buckets[index] = bucket[:position] + row + bucket[position + ROW.size :]
        batches = pack_batches(entry)
        if batches:
            self._batches[producer_id] = batches
        else:
            self._batches.pop(producer_id, None)

    def iterate_entries(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yield every producer id with its entry. The table must not change meanwhile."""
        for producer_id, entry in map(unpack_row, self.copy_rows()):
            batches = self._batches.get(producer_id)
            if batches is not None:
                entry.batches = unpack_batches(batches)
            yield producer_id, entry

    def copy_rows(self) -> ProducerRows:
        """Return the rows as they are now."""
        self._pack_recent()
        return ProducerRows(self._buckets.copy(), self._count)

    def copy(self) -> "ProducerTable":
        """Return a table of the same entries that changes independently."""
        self._pack_recent()
        other = ProducerTable()
        other._buckets, other._mask, other._count = self._buckets.copy(), self._mask, self._count
        other._batches = self._batches.copy()
        return other

    def expire(self, limit_ms: int) -> int:
        """Remove the producers without an open transaction whose last timestamp is at or before `limit_ms`.

        One call examines up to `EXPIRE_SCAN_ROWS` rows; the next call continues there. Return the number of
        removed producers.
        """
        self._pack_recent()
        self._recent.clear()
        expired, examined = 0, 0
        for _ in range(len(self._buckets)):
            if examined >= EXPIRE_SCAN_ROWS:
                break
            index = self._expire_from % len(self._buckets)
            self._expire_from = index + 1
            bucket = self._buckets[index]
            examined += len(bucket) // ROW.size
            expired += self._expire_bucket(index, bucket, limit_ms)
        self._count -= expired
        while len(self._buckets) > 1 and self._count < _SHRINKS_BELOW * len(self._buckets):
            self._merge()
        return expired

    def _expire_bucket(self, index: int, bucket: bytes, limit_ms: int) -> int:
        rows = list(ROW.iter_unpack(bucket))
        gone = [row[0] for row in rows if row[_TIMESTAMP] <= limit_ms and row[_TRANSACTION] < 0]
        if not gone:
            return 0
        kept = [row for row in rows if row[_TIMESTAMP] > limit_ms or row[_TRANSACTION] >= 0]
        self._buckets[index] = b"".join([ROW.pack(*row) for row in kept])
        for producer_id in gone:
            self._batches.pop(producer_id, None)
        return len(gone)

    # Buckets

    def _find_bucket(self, key: bytes) -> int:
        """Return the bucket of a key. The hash of bytes is keyed, so that no client can aim at one bucket."""
        index = hash(key) & self._mask
        return index if index < len(self._buckets) else index & (self._mask >> 1)

    def _split(self) -> None:
        """Add a bucket, and move the rows that belong there."""
        number = len(self._buckets)
        self._buckets.append(b"")
        self._mask = (1 << number.bit_length()) - 1
        source = _find_split_source(number)
        bucket = self._buckets[source]
        rows = [bucket[start : start + ROW.size] for start in range(0, len(bucket), ROW.size)]
        places = [self._find_bucket(row[: _KEY.size]) for row in rows]
        for index in (source, number):
            self._buckets[index] = b"".join(
                [row for row, place in zip(rows, places, strict=True) if place == index]
            )

    def _merge(self) -> None:
        """Remove the last bucket."""
        bucket = self._buckets.pop()
        number = len(self._buckets)
        self._buckets[_find_split_source(number)] += bucket
        self._mask = (1 << (number - 1).bit_length()) - 1


def _find_split_source(number: int) -> int:
    """Return the bucket that a later bucket was split from."""
    return number - (1 << (number.bit_length() - 1))


def _find_row(bucket: bytes, key: bytes) -> int:
    """Return the position of the row that begins with `key`, -1 without one."""
    position = bucket.find(key)
    while position > 0 and position % ROW.size:
        position = bucket.find(key, position + 1)
    return position


def create_table(entries: Iterable[tuple[int, ProducerEntry]]) -> ProducerTable:
    """Return a table of these entries."""
    table = ProducerTable()
    for producer_id, entry in entries:
        table.store_entry(producer_id, entry)
    return table
