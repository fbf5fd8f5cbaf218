"""Which transactions of a log were aborted: the indexes that a broker left beside its segments.

    .txnindex   version int16 | producer id int64 | first offset int64 | last offset int64 |
                last stable offset int64

Nothing here writes transactions, so that the indexes are only read. A transaction whose end is not in the log will
not get one here either: its records are treated as aborted ones, up to the end of the log.

Source: Kafka's `TransactionIndex`, `AbortedTxn`.
"""

import re
import struct
from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from storage.errors import DamagedFile
from storage.files import Files

_INDEX: Final = re.compile(r"\d{20}\.txnindex")
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_NEVER: Final = 2**63 - 1


class AbortedTransaction(NamedTuple):
    """The producer, and the offsets of the first of its records and of its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class AbortedTransactions:
    """Those of one log."""

    __slots__ = ("_found",)

    def __init__(self, found: Iterable[AbortedTransaction] = ()) -> None:
        self._found = sorted(found, key=lambda aborted: aborted.first_offset)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._found)

    def add(self, aborted: AbortedTransaction) -> None:
        """One more."""
        insort(self._found, aborted, key=lambda each: each.first_offset)

    def within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that have records or a marker in a range (its end excluded), by first offset."""
        return [
            aborted
            for aborted in self._found
            if aborted.last_offset >= first_offset and aborted.first_offset < end_offset
        ]


def read_aborted(files: Files, directory: str, still_open: Mapping[int, int]) -> AbortedTransactions:
    """From the indexes in a log's directory.

    In: transactions without an end, first offset by producer id. Raises DamagedFile, OSError.
    """
    found = {AbortedTransaction(producer_id, first, _NEVER) for producer_id, first in still_open.items()}
    for name in filter(_INDEX.fullmatch, files.listdir(directory)):
        path = f"{directory}/{name}"
        data = files.read(path)
        # A broker that was killed may have left a part of an entry; a restart of it drops that as well.
        for version, producer_id, first, last, _ in _ENTRY.iter_unpack(
            data[: len(data) - len(data) % _ENTRY.size]
        ):
            if version != _VERSION or not 0 <= first <= last:
                raise DamagedFile(path, "is not an index of aborted transactions")
            found.add(AbortedTransaction(producer_id, first, last))
    return AbortedTransactions(found)
