"""Closed ledger entries: compressed in memory within a bound, and appended to a file of JSON lines if one is
configured.

Entries are stored as bytes, so the bound is exact and the garbage collector has no work with them. Beyond the
bound the store drops the oldest entry of the group with the most bytes, but keeps the last two entries of each
group. If that is not enough, it drops all entries of the group without a new entry for the longest time.

The file is written outside the event loop and never read. With a slow or failing disk only lines of the file are
lost, and lines that do not fit into the queue are counted. A full file is renamed to `<name>.1` and replaces the
previous one.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Self
from zlib import compress, decompress

from coordinator.core import clock
from coordinator.core.async_files import AsyncFiles
from coordinator.core.daemon_log import FAILURE_PERIOD_MS, OngoingFailures, format_repeats
from storage.files import File, Files
from storage.storage_errors import format_error_reason

ENTRY_OVERHEAD: Final = 200
"""The memory that Python needs for an entry beside its bytes."""
GROUP_OVERHEAD: Final = 800
"""The memory that Python needs for a group beside the bytes of its name."""
MIN_ENTRIES_PER_GROUP: Final = 2
"""The minimum number of entries that each group keeps."""
_HEAP_SLACK: Final = 64
_COMPRESSION_LEVEL: Final = 1


class StoredEntry(NamedTuple):
    """A compressed entry. The members of a large group have similar data, so compression saves about 90
    percent."""

    seq: int
    group_id: str
    packed: bytes

    @classmethod
    def pack(cls, seq: int, group_id: str, data: bytes) -> Self:
        """Compress an entry. `data` is its JSON."""
        return cls(seq, group_id, compress(data, _COMPRESSION_LEVEL))

    @property
    def data(self) -> bytes:
        """The entry as JSON."""
        return decompress(self.packed)


class _GroupEntries:
    __slots__ = ("bytes", "entries")

    def __init__(self) -> None:
        self.entries: deque[StoredEntry] = deque()
        self.bytes = 0

    def append(self, entry: StoredEntry) -> int:
        """Add the newest entry. Return the additional bytes."""
        self.entries.append(entry)
        return self._count(len(entry.packed) + ENTRY_OVERHEAD)

    def replace_newest(self, entry: StoredEntry) -> int:
        """Replace the newest entry. Return the additional bytes."""
        replaced, self.entries[-1] = self.entries[-1], entry
        return self._count(len(entry.packed) - len(replaced.packed))

    def remove_oldest(self) -> int:
        """Remove the oldest entry. Return the additional bytes, which are negative."""
        return self._count(-len(self.entries.popleft().packed) - ENTRY_OVERHEAD)

    def _count(self, more: int) -> int:
        self.bytes += more
        return more


class LedgerStore:
    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self.count = 0
        self.forgotten = 0
        """The number of dropped entries."""
        self._most_bytes = most_bytes
        self._groups: OrderedDict[str, _GroupEntries] = OrderedDict()
        """The entries of each group. The group without a new entry for the longest time comes first."""
        self._largest: list[tuple[int, str]] = []
        """A heap of the groups that can lose entries, by their negative size in bytes. Some elements may be
        outdated."""

    def add(self, entry: StoredEntry) -> None:
        """Keep an entry that is newer than all others."""
        group = self._groups.get(entry.group_id)
        if group is None:
            group = self._groups[entry.group_id] = _GroupEntries()
            self.bytes += GROUP_OVERHEAD + len(entry.group_id)
        self._groups.move_to_end(entry.group_id)
        self.bytes += group.append(entry)
        self.count += 1
        self._push_size(entry.group_id, group)
        self._enforce_limit()

    def find_newest(self, group_id: str) -> StoredEntry | None:
        """Return the newest entry of a group, or None."""
        group = self._groups.get(group_id)
        return None if group is None else group.entries[-1]

    def replace_newest(self, entry: StoredEntry) -> None:
        """Replace the newest entry of its group."""
        group = self._groups[entry.group_id]
        self.bytes += group.replace_newest(entry)
        self._push_size(entry.group_id, group)
        self._enforce_limit()

    def list_group(self, group_id: str, after: int = -1) -> list[StoredEntry]:
        """Return the entries of a group with a higher number, oldest first."""
        group = self._groups.get(group_id)
        return [] if group is None else _list_after(list(group.entries), after)

    def list_all(self, after: int = -1) -> list[StoredEntry]:
        """Return the entries of all groups with a higher number, oldest first."""
        found = [entry for group in self._groups.values() for entry in group.entries if entry.seq > after]
        return sorted(found)

    def _enforce_limit(self) -> None:
        while self.bytes > self._most_bytes and self.count > 1:
            self._forget_one()

    def _push_size(self, group_id: str, group: _GroupEntries) -> None:
        if len(group.entries) > MIN_ENTRIES_PER_GROUP:
            heappush(self._largest, (-group.bytes, group_id))
            if len(self._largest) > 4 * len(self._groups) + _HEAP_SLACK:
                self._largest = [
                    (-one.bytes, name)
                    for name, one in self._groups.items()
                    if len(one.entries) > MIN_ENTRIES_PER_GROUP
                ]
                heapify(self._largest)

    def _forget_one(self) -> None:
        while self._largest:
            size, group_id = heappop(self._largest)
            group = self._groups.get(group_id)
            if group is not None and group.bytes == -size and len(group.entries) > MIN_ENTRIES_PER_GROUP:
                self._forget_oldest(group_id, group)
                self._push_size(group_id, group)
                return
        group_id, group = next(iter(self._groups.items()))
        self._forget_oldest(group_id, group)

    def _forget_oldest(self, group_id: str, group: _GroupEntries) -> None:
        self.bytes += group.remove_oldest()
        self.count -= 1
        self.forgotten += 1
        if not group.entries:
            del self._groups[group_id]
            self.bytes -= GROUP_OVERHEAD + len(group_id)


def _list_after(entries: list[StoredEntry], after: int) -> list[StoredEntry]:
    return entries[bisect_right(entries, after, key=lambda entry: entry.seq) :]


_LOG: Final = logging.getLogger("Control")

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_QUEUE_BYTES: Final = 1024 * 1024
CLOSE_TIMEOUT_S: Final = 5.0
_FILE_NAME: Final = "Failed to write the file of the ledger"


class LedgerFile:
    """The file of closed entries. All methods belong to the event loop's thread."""

    def __init__(
        self,
        files: Files,
        path: str,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_queue_bytes: int = MAX_QUEUE_BYTES,
    ) -> None:
        self.dropped = 0
        """The number of lines that were lost."""
        self._path = path
        self._files = files
        self._async_files = AsyncFiles(files)
        self._max_file_bytes = max_file_bytes
        self._max_queue_bytes = max_queue_bytes
        self._failures = OngoingFailures("Control")
        self._queue: list[bytes] = []
        self._queue_bytes = 0
        self._file: File | None = None
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._warned_ms = clock.monotonic_ms() - FAILURE_PERIOD_MS

    def add(self, line: bytes) -> None:
        """Write a line, given without its line end."""
        if self._is_closed or self._queue_bytes + len(line) > self._max_queue_bytes:
            self._drop(1)
            return
        self._queue.append(line)
        self._queue_bytes += len(line) + 1
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_queue())

    async def flush(self) -> None:
        """Wait until queued entries are written or lost, at most for the time limit of a stop."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Write the queued entries and close the file."""
        self._is_closed = True
        await self.flush()
        if self._writing is None and self._file is not None:
            self._file.close()
            self._file = None

    async def _write_queue(self) -> None:
        while self._queue:
            lines, self._queue, self._queue_bytes = self._queue, [], 0
            try:
                await self._async_files.run_in_executor(self._append, b"\n".join([*lines, b""]))
            except OSError as error:
                self._drop(len(lines), tell=False)
                count = self._failures.record_failure(_FILE_NAME, error)
                if count:
                    _LOG.error(
                        "Failed to write %s: %s%s",
                        _FILE_NAME,
                        format_error_reason(error),
                        format_repeats(count),
                    )
            else:
                self._failures.record_recovery(_FILE_NAME)
        self._writing = None

    def _drop(self, lines: int, *, tell: bool = True) -> None:
        self.dropped += lines
        now_ms = clock.monotonic_ms()
        if tell and now_ms - self._warned_ms >= FAILURE_PERIOD_MS:
            self._warned_ms = now_ms
            _LOG.warning(
                "The disk is too slow for the ledger: %d lines were not written to its file", self.dropped
            )

    # In the executor's thread

    def _append(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(data) > self._max_file_bytes:
                self._rotate()
            assert self._file is not None
            self._file.write(data)
            self._size += len(data)
        except OSError:
            self._close_file()
            raise

    def _open(self) -> None:
        self._file = file = self._files.open_append(self._path)
        self._size = file.size()
        if self._size and file.pread(1, self._size - 1) != b"\n":
            # The last line is torn. End it, so that the next line is separate.
            file.write(b"\n")
            self._size += 1

    def _rotate(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        self._files.replace(self._path, f"{self._path}.1")
        self._open()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
