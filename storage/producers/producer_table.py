"""All producers of one partition, packed: a producer with one batch costs about 60 bytes.

A client chooses how many producer ids it writes with, and each is remembered for `producer.id.expiration.ms`. So
the table stores rows of bytes instead of objects. It is a hash table that grows one bucket at a time (linear
hashing): an insertion moves the rows of one bucket at most. A bucket is an immutable `bytes` object of whole rows:
a copy of the table is a copy of the list of buckets.

Batches that a row cannot hold (a producer has up to five of them) are packed beside the rows, by producer id. The
producers that were used last are kept as objects, and packed when others take their place.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from storage.producers.producer_entry import (
    ROW,
    ProducerEntry,
    pack_batches,
    pack_row,
    unpack_batches,
    unpack_row,
)

_ROWS_PER_BUCKET: Final = 16
"""On average, at most: a lookup searches one bucket, and a change copies it."""
_SHRINKS_BELOW: Final = 4
_KEY: Final = Struct(">q")
_TIMESTAMP: Final = 5
_TRANSACTION: Final = 7
"""Positions in an unpacked row."""
_MOST_RECENT: Final = 16
EXPIRED_AT_ONCE: Final = 50_000
"""Rows that one call of `expire` examines at most: about 10 ms."""


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
    """A mapping from producer id to `ProducerEntry`. An entry that was changed must be put again."""

    __slots__ = ("_batches", "_buckets", "_count", "_expire_from", "_mask", "_recent")

    def __init__(self) -> None:
        self._buckets: list[bytes] = [b""]
        self._mask = 0
        """The lowest one-bits that number every bucket."""
        self._count = 0
        self._batches: dict[int, bytes] = {}
        self._expire_from = 0
        self._recent: dict[int, ProducerEntry] = {}
        """The entries that were used last; their rows may be older than they are."""

    def __len__(self) -> int:
        return self._count

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer; None when it is unknown."""
        entry = self._recent.get(producer_id)
        if entry is not None:
            return entry
        key = _KEY.pack(producer_id)
        bucket = self._buckets[self._index(key)]
        position = _find(bucket, key)
        if position < 0:
            return None
        _, entry = unpack_row(ROW.unpack_from(bucket, position))
        batches = self._batches.get(producer_id)
        if batches is not None:
            entry.batches = unpack_batches(batches)
        self._keep_recent(producer_id, entry)
        return entry

    def put(self, producer_id: int, entry: ProducerEntry) -> None:
        """Insert or replace the entry of a producer."""
        if producer_id in self._recent:
            self._recent[producer_id] = entry
        else:
            self._pack(producer_id, entry)
            self._keep_recent(producer_id, entry)

    def _keep_recent(self, producer_id: int, entry: ProducerEntry) -> None:
        recent = self._recent
        recent[producer_id] = entry
        if len(recent) > _MOST_RECENT:
            oldest = next(iter(recent))
            self._pack(oldest, recent.pop(oldest))

    def _pack_recent(self) -> None:
        for producer_id, entry in self._recent.items():
            self._pack(producer_id, entry)

    def _pack(self, producer_id: int, entry: ProducerEntry) -> None:
        """Write the row of a producer, and the batches that it does not hold."""
        key, row = _KEY.pack(producer_id), pack_row(producer_id, entry)
        index = self._index(key)
        bucket = self._buckets[index]
        position = _find(bucket, key)
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

    def items(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yield every producer id with its entry. The table must not change meanwhile."""
        for producer_id, entry in map(unpack_row, self.rows()):
            batches = self._batches.get(producer_id)
            if batches is not None:
                entry.batches = unpack_batches(batches)
            yield producer_id, entry

    def rows(self) -> ProducerRows:
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

        One call examines up to `EXPIRED_AT_ONCE` rows; the next one goes on there. Returns the number removed.
        """
        self._pack_recent()
        self._recent.clear()
        expired, examined = 0, 0
        for _ in range(len(self._buckets)):
            if examined >= EXPIRED_AT_ONCE:
                break
            index = self._expire_from % len(self._buckets)
            self._expire_from = index + 1
            bucket = self._buckets[index]
            examined += len(bucket) // ROW.size
            expired += self._expire_in(index, bucket, limit_ms)
        self._count -= expired
        while len(self._buckets) > 1 and self._count < _SHRINKS_BELOW * len(self._buckets):
            self._merge()
        return expired

    def _expire_in(self, index: int, bucket: bytes, limit_ms: int) -> int:
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

    def _index(self, key: bytes) -> int:
        """Return the bucket of a key. The hash of bytes is keyed, so that no client can aim at one bucket."""
        index = hash(key) & self._mask
        return index if index < len(self._buckets) else index & (self._mask >> 1)

    def _split(self) -> None:
        """Add a bucket, and move the rows that belong there."""
        number = len(self._buckets)
        self._buckets.append(b"")
        self._mask = (1 << number.bit_length()) - 1
        source = _partner(number)
        bucket = self._buckets[source]
        rows = [bucket[start : start + ROW.size] for start in range(0, len(bucket), ROW.size)]
        places = [self._index(row[: _KEY.size]) for row in rows]
        for index in (source, number):
            self._buckets[index] = b"".join(
                [row for row, place in zip(rows, places, strict=True) if place == index]
            )

    def _merge(self) -> None:
        """Remove the last bucket."""
        bucket = self._buckets.pop()
        number = len(self._buckets)
        self._buckets[_partner(number)] += bucket
        self._mask = (1 << (number - 1).bit_length()) - 1


def _partner(number: int) -> int:
    """Return the bucket that a later bucket was split from."""
    return number - (1 << (number.bit_length() - 1))


def _find(bucket: bytes, key: bytes) -> int:
    """Return the position of the row that begins with `key`, -1 without one."""
    position = bucket.find(key)
    while position > 0 and position % ROW.size:
        position = bucket.find(key, position + 1)
    return position


def table_of(entries: Iterable[tuple[int, ProducerEntry]]) -> ProducerTable:
    """Return a table of these entries."""
    table = ProducerTable()
    for producer_id, entry in entries:
        table.put(producer_id, entry)
    return table
