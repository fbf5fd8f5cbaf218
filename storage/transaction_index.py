"""Which transactions of a log were aborted: an index beside each segment names those whose abort marker it holds.

    .txnindex   version int16 | producer id int64 | first offset int64 | last offset int64 |
                last stable offset int64

*Last offset* is that of the marker, *last stable offset* the one that the log had when the marker was written: who
looks for transactions that begin before an offset needs no entry behind the first one with that much.

As the other indexes it is kept in memory while its segment is appended to, written when that is sealed or closed,
and made anew from the batches of what has to be recovered. A segment without aborted transactions has no file.

Source: Kafka's `TransactionIndex`, `AbortedTxn`.
"""

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from storage.errors import DamagedFile
from storage.files import Files

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
ENTRY_BYTES: Final = 34

_INDEX: Final = re.compile(r"(\d{20})\.txnindex", re.ASCII)
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0

assert _ENTRY.size == ENTRY_BYTES


class AbortedTransaction(NamedTuple):
    """The producer, the offsets of the first of its records and of its abort marker, and the last stable offset at
    that time."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions:
    """Those of one log, in the order of their markers. Takes 32 bytes for each."""

    __slots__ = ("_firsts", "_lasts", "_producers", "_stable")

    def __init__(self, found: Iterable[AbortedTransaction] = ()) -> None:
        self._producers, self._firsts, self._lasts, self._stable = (array("q") for _ in range(4))
        for aborted in sorted(set(found), key=lambda each: each.last_offset):
            self.add(aborted)

    def __len__(self) -> int:
        return len(self._lasts)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(AbortedTransaction, self._producers, self._firsts, self._lasts, self._stable)

    def _at(self, number: int) -> AbortedTransaction:
        columns = (self._producers, self._firsts, self._lasts, self._stable)
        return AbortedTransaction(*(column[number] for column in columns))

    def add(self, aborted: AbortedTransaction) -> None:
        """One more, whose marker comes after all others."""
        assert not self._lasts or self._lasts[-1] <= aborted.last_offset, (self._lasts[-1], aborted)
        self._producers.append(aborted.producer_id)
        self._firsts.append(aborted.first_offset)
        self._lasts.append(aborted.last_offset)
        self._stable.append(aborted.last_stable_offset)

    def within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that have records or a marker in a range (its end excluded), by marker."""
        found = []
        for number in range(bisect_left(self._lasts, first_offset), len(self._lasts)):
            if self._firsts[number] < end_offset:
                found.append(self._at(number))
            if self._stable[number] >= end_offset:
                break
        return found

    def ended_within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those whose markers lie in a range, its end excluded."""
        start, end = bisect_left(self._lasts, first_offset), bisect_left(self._lasts, end_offset)
        return [self._at(number) for number in range(start, end)]

    def has_marker_from(self, offset: int) -> bool:
        """Whether the marker of one of them is there or behind."""
        return bool(self._lasts) and self._lasts[-1] >= offset

    def has_marker(self, offset: int) -> bool:
        """Whether the marker of one of them is there."""
        number = bisect_left(self._lasts, offset)
        return number < len(self._lasts) and self._lasts[number] == offset

    def replace(self, first_offset: int, end_offset: int, found: Iterable[AbortedTransaction]) -> None:
        """Puts others, in order, in the place of those whose markers lie in a range, its end excluded."""
        start, end = bisect_left(self._lasts, first_offset), bisect_left(self._lasts, end_offset)
        rows = list(found)
        assert all(first_offset <= row.last_offset < end_offset for row in rows), (first_offset, end_offset)
        for number, column in enumerate((self._producers, self._firsts, self._lasts, self._stable)):
            column[start:end] = array("q", [row[number] for row in rows])

    def forget_before(self, offset: int) -> None:
        """Forgets those whose markers lie before an offset."""
        if self._lasts and self._lasts[0] < offset:
            self.replace(self._lasts[0], offset, ())


def encode_index(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The file of a segment. In: the transactions whose markers it holds, in order."""
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in aborted)


def decode_index(data: bytes, path: str) -> list[AbortedTransaction]:
    """What the file of a segment says; a part of an entry at its end, as a killed broker may leave it, is nothing.

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


def index_offsets(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments that have such an index. In: the names in a log's directory."""
    return [int(match[1]) for match in map(_INDEX.fullmatch, names) if match is not None]


def index_path(directory: str, base_offset: int) -> str:
    """Where the index of a segment lies."""
    return f"{directory}/{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"


def read_aborted(files: Files, directory: str) -> AbortedTransactions:
    """All that the indexes in a log's directory name. Raises DamagedFile, OSError."""
    paths = [index_path(directory, offset) for offset in index_offsets(files.listdir(directory))]
    return AbortedTransactions(each for path in paths for each in decode_index(files.read(path), path))
