"""The ledger as a file of JSON lines: written off the loop, never read.

A disk that is slow, or fails, loses lines and nothing else: those that find no room in the queue are counted. When
the file has grown to its bound it becomes `….1`, in place of the one before.
"""

import asyncio
import logging
from typing import Final

from coordinator import clock
from coordinator.async_files import AsyncFiles
from coordinator.ongoing_failures import PERIOD_MS, OngoingFailures, times
from storage.files import File, Files
from storage.os_error import reason_of

_LOG: Final = logging.getLogger("Control")

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_QUEUE_BYTES: Final = 1024 * 1024
CLOSE_TIMEOUT_S: Final = 5.0
_NAME: Final = "The file of the ledger"


class LedgerFile:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        files: Files,
        path: str,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_queue_bytes: int = MAX_QUEUE_BYTES,
    ) -> None:
        self.dropped = 0
        """Lines that are not in the file."""
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
        self._told_ms = clock.monotonic_ms() - PERIOD_MS

    def add(self, line: bytes) -> None:
        """Has a line written, which has no end yet."""
        if self._is_closed or self._queue_bytes + len(line) > self._max_queue_bytes:
            self._drop(1)
            return
        self._queue.append(line)
        self._queue_bytes += len(line) + 1
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_queue())

    async def written(self) -> None:
        """Waits until what is queued is written, or lost; not for longer than a stop may take."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Writes what is queued."""
        self._is_closed = True
        await self.written()
        if self._writing is None and self._file is not None:
            self._file.close()
            self._file = None

    async def _write_queue(self) -> None:
        while self._queue:
            lines, self._queue, self._queue_bytes = self._queue, [], 0
            try:
                await self._async_files.call(self._append, b"\n".join([*lines, b""]))
            except OSError as error:
                self._drop(len(lines), tell=False)
                count = self._failures.failed(_NAME, error)
                if count:
                    _LOG.error("%s is not written: %s%s", _NAME, reason_of(error), times(count))
            else:
                self._failures.is_over(_NAME)
        self._writing = None

    def _drop(self, lines: int, *, tell: bool = True) -> None:
        self.dropped += lines
        now_ms = clock.monotonic_ms()
        if tell and now_ms - self._told_ms >= PERIOD_MS:
            self._told_ms = now_ms
            _LOG.warning("The disk is slower than the ledger: %d lines are not in its file", self.dropped)

    # In the executor's thread

    def _append(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(data) > self._max_file_bytes:
                self._turn_over()
            assert self._file is not None
            self._file.write(data)
            self._size += len(data)
        except OSError:
            self._let_go()
            raise

    def _open(self) -> None:
        self._file = file = self._files.open_append(self._path)
        self._size = file.size()
        if self._size and file.pread(1, self._size - 1) != b"\n":
            # The last line is torn: the next one is a line of its own all the same.
            file.write(b"\n")
            self._size += 1

    def _turn_over(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        self._files.replace(self._path, f"{self._path}.1")
        self._open()

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
