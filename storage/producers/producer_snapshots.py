"""Files about producers beside the segments of a log: snapshots of producer state, and indexes of aborted
transactions.

    <offset>.snapshot   version int16 1 | crc-32c uint32 of all that follows | count int32 | per producer:
                        id int64 | epoch int16 | last sequence int32 | last offset int64
                        | offset delta int32 | timestamp int64 | coordinator epoch int32
                        | first offset of the open transaction int64

A snapshot covers every batch before the offset in its name, so opening the log walks only the batches after
the latest one. It has only the last batch of each producer. -1 stands for a missing value: a producer known
only by a marker has no last offset, one without an open transaction no first offset. A snapshot is optional:
it is not synced, and a torn or wrong one is removed.

Files that do not fit the log are removed: a snapshot past its end or before its start, a snapshot at which no
segment begins (except the latest, which a clean stop leaves), an index without its segment. If one segment has
replaced others and their indexes remain, as older versions of groupd left them, its own index gets their
entries.

Source: Kafka's `ProducerStateManager.writeSnapshot`, `removeStraySnapshots`, `truncateAndReload`, `LogLoader`,
`ProducerSnapshot.json`.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from storage.checksum import crc32c
from storage.files import Files
from storage.producers.producer_state import ProducerState
from storage.producers.producer_table import ROW, ProducerEntry, unpack_row
from storage.storage_errors import DamagedFile
from storage.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    decode_transaction_index,
    encode_transaction_index,
    find_transaction_indexes,
    format_transaction_index_path,
)

SNAPSHOT_SUFFIX: Final = ".snapshot"

_NAME: Final = re.compile(r"(\d{20})\.snapshot", re.ASCII)
_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_VERSION: Final = 1


def format_snapshot_path(directory: str, offset: int) -> str:
    """Return the path of the snapshot of the producers before an offset."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def find_snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the names of a directory, ascending."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match is not None)


def encode_snapshot(state: ProducerState) -> bytes:
    """Return the content of a snapshot file."""
    rows = state.copy_rows()
    data = _COUNT.pack(len(rows)) + rows.encode()
    return _PREFIX.pack(_VERSION, crc32c(data)) + data


def decode_snapshot(data: bytes, path: str) -> Iterator[tuple[int, ProducerEntry]]:
    """Yield the producers of a file, by id. Raises DamagedFile, with `path`, before the first one."""
    body = data[_PREFIX.size :]
    if len(body) < _COUNT.size:
        raise DamagedFile(path, f"{len(data)} bytes are not a producer snapshot")
    version, crc = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise DamagedFile(path, f"version {version} of a snapshot of producers, only {_VERSION} is known", 0)
    if crc32c(body) != crc:
        raise DamagedFile(path, f"checksum {crc32c(body):#010x} is not the stored {crc:#010x}", 2)
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * ROW.size:
        raise DamagedFile(path, f"{len(data)} bytes are not those of {count} producers", _PREFIX.size)
    return map(unpack_row, ROW.iter_unpack(body[_COUNT.size :]))


class ProducerFiles:
    """The files about producers of one log. `remove_stray_files` comes first."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.snapshots: list[int] = []
        """The offsets of the valid snapshots, ascending."""

    def remove_stray_files(
        self, bases: Sequence[int], start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """Remove files that cannot belong to the log, and return the aborted transactions of its indexes.

        `bases` has the base offsets of the segments. The first invalid index is removed, and so is every
        snapshot after its segment. Raises OSError.
        """
        names = self._files.listdir(self._directory)
        self.snapshots = find_snapshot_offsets(names)
        strays = [offset for offset in self.snapshots if offset not in bases]
        if strays and strays[-1] > bases[-1]:
            strays.pop()
        untrue = [offset for offset in self.snapshots if not start_offset < offset <= end_offset]
        self._remove_snapshots({*strays, *untrue})
        found: list[AbortedTransaction] = []
        replaced: list[str] = []
        is_removed = bool(untrue) and untrue[-1] > end_offset
        for base in sorted(find_transaction_indexes(names)):
            path = format_transaction_index_path(self._directory, base)
            if base not in bases and not bases[0] < base < bases[-1]:
                self._files.unlink(path)
                is_removed = True
                continue
            if base not in bases:
                replaced.append(path)
            try:
                found += decode_transaction_index(self._files.read(path), path)
            except DamagedFile:
                # The entries are found again in the batches.
                self._files.unlink(path)
                self._remove_snapshots([offset for offset in self.snapshots if offset > base])
        if replaced:
            aborted = AbortedTransactions(found)
            for base, following in pairwise([*bases, end_offset]):
                self.correct_index(base, aborted.find_ended_within(base, following))
            for path in filter(self._files.exists, replaced):
                self._files.unlink(path)
        if is_removed:
            # Removed files that reappear after a crash would count as files of the new content of the log.
            self._files.fsync_directory(self._directory)
        return found

    def _remove_snapshots(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._files.unlink(format_snapshot_path(self._directory, offset))
            self.snapshots.remove(offset)

    def read_latest_snapshot(self, limit: int) -> tuple[int, Iterable[tuple[int, ProducerEntry]]]:
        """Return the offset and the producers of the latest valid snapshot up to `limit`, or 0 and none.

        Invalid snapshots on the way are removed. Raises OSError.
        """
        for offset in [offset for offset in reversed(self.snapshots) if offset <= limit]:
            path = format_snapshot_path(self._directory, offset)
            try:
                return offset, decode_snapshot(self._files.read(path), path)
            except DamagedFile:
                self._remove_snapshots([offset])
        return 0, ()

    def write_snapshot(self, offset: int, state: ProducerState) -> None:
        """Write the snapshot of the producers before an offset. Raises OSError."""
        self._files.write(format_snapshot_path(self._directory, offset), encode_snapshot(state))

    def correct_index(self, base_offset: int, aborted: Sequence[AbortedTransaction]) -> None:
        """Make the index of a segment match its batches; a correction is durable. Raises OSError."""
        path = format_transaction_index_path(self._directory, base_offset)
        due = encode_transaction_index(aborted)
        if self._files.exists(path):
            if not due:
                self._files.unlink(path)
            elif self._files.read(path) != due:
                self._files.write_atomically(path, due)
        elif due:
            self._files.write_atomically(path, due)
