"""The index of aborted transactions: each segment has one with the transactions whose abort markers it contains.

    .txnindex   version int16 | producer id int64 | first offset int64 | last offset int64 |
                last stable offset int64

*Last offset* is that of the marker, *last stable offset* that of the log when the marker was written. A search for
transactions that begin before an offset ends with the first entry whose last stable offset is at least that offset.

Like other indexes it is kept in memory until its segment is sealed or closed, and then written. Recovery
rebuilds it from the batches. A segment without aborted transactions has no file.

Source: Kafka's `TransactionIndex`, `AbortedTxn`.
"""

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from storage.files import Files
from storage.storage_errors import DamagedFile

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
ENTRY_BYTES: Final = 34

_INDEX: Final = re.compile(r"(\d{20})\.txnindex", re.ASCII)
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0

assert _ENTRY.size == ENTRY_BYTES


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, the offset of its first record, the offset of its abort marker,
    and the last stable offset when the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions:
    """The aborted transactions of one log, in the order of their markers. Each one takes 32 bytes."""

    __slots__ = ("_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self, found: Iterable[AbortedTransaction] = ()) -> None:
        self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets = (
            array("q") for _ in range(4)
        )
        for aborted in sorted(set(found), key=lambda each: each.last_offset):
            self.add(aborted)

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(
            AbortedTransaction,
            self._producer_ids,
            self._first_offsets,
            self._last_offsets,
            self._stable_offsets,
        )

    def _find_row(self, number: int) -> AbortedTransaction:
        columns = (self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets)
        return AbortedTransaction(*(column[number] for column in columns))

    def add(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker comes after all others."""
        assert not self._last_offsets or self._last_offsets[-1] <= aborted.last_offset, (
            self._last_offsets[-1],
            aborted,
        )
        self._producer_ids.append(aborted.producer_id)
        self._first_offsets.append(aborted.first_offset)
        self._last_offsets.append(aborted.last_offset)
        self._stable_offsets.append(aborted.last_stable_offset)

    def find_overlapping(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records or a marker in a range (its end excluded), by marker."""
        found = []
        for number in range(bisect_left(self._last_offsets, first_offset), len(self._last_offsets)):
            if self._first_offsets[number] < end_offset:
                found.append(self._find_row(number))
            if self._stable_offsets[number] >= end_offset:
                break
        return found

    def find_ended_within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the transactions with markers in a range, excluding its end."""
        start, end = (
            bisect_left(self._last_offsets, first_offset),
            bisect_left(self._last_offsets, end_offset),
        )
        return [self._find_row(number) for number in range(start, end)]

    def has_marker_from(self, offset: int) -> bool:
        """Return whether a transaction has its marker at or after an offset."""
        return bool(self._last_offsets) and self._last_offsets[-1] >= offset

    def has_marker(self, offset: int) -> bool:
        """Return whether a transaction has its marker at an offset."""
        number = bisect_left(self._last_offsets, offset)
        return number < len(self._last_offsets) and self._last_offsets[number] == offset

    def replace_range(self, first_offset: int, end_offset: int, found: Iterable[AbortedTransaction]) -> None:
        """Replace the transactions with markers in a range, excluding its end, by others in order."""
        start, end = (
            bisect_left(self._last_offsets, first_offset),
            bisect_left(self._last_offsets, end_offset),
        )
        rows = list(found)
        assert all(first_offset <= row.last_offset < end_offset for row in rows), (first_offset, end_offset)
        for number, column in enumerate(
            (self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets)
        ):
            column[start:end] = array("q", [row[number] for row in rows])

    def remove_before(self, offset: int) -> None:
        """Remove the transactions with markers before an offset."""
        if self._last_offsets and self._last_offsets[0] < offset:
            self.replace_range(self._last_offsets[0], offset, ())


def encode_transaction_index(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Return the file of a segment from its transactions, in the order of their markers."""
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in aborted)


def decode_transaction_index(data: bytes, path: str) -> list[AbortedTransaction]:
    """Decode the index file of a segment. An incomplete last entry, as a killed broker may leave it, is ignored.

    Raises DamagedFile, naming `path`.
    """
    found: list[AbortedTransaction] = []
    last_offset = -1
    for version, *fields in _ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES]):
        aborted = AbortedTransaction(*fields)
        is_sound = 0 <= aborted.first_offset <= aborted.last_offset and aborted.producer_id >= 0
        if version != _VERSION or not is_sound or aborted.last_offset <= last_offset:
            raise DamagedFile(path, "is not an index of aborted transactions", len(found) * ENTRY_BYTES)
        last_offset = aborted.last_offset
        found.append(aborted)
    return found


def find_transaction_indexes(names: Iterable[str]) -> list[int]:
    """Return the base offsets of segments with such an index, from the names of a log directory."""
    return [int(match[1]) for match in map(_INDEX.fullmatch, names) if match is not None]


def format_transaction_index_path(directory: str, base_offset: int) -> str:
    """Return the path of the index of a segment."""
    return f"{directory}/{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"


def read_aborted_transactions(files: Files, directory: str) -> AbortedTransactions:
    """Read the aborted transactions of all indexes in a log's directory. Raises DamagedFile, OSError."""
    paths = [
        format_transaction_index_path(directory, offset)
        for offset in find_transaction_indexes(files.listdir(directory))
    ]
    return AbortedTransactions(
        each for path in paths for each in decode_transaction_index(files.read(path), path)
    )
