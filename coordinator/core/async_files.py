"""`Files` for the event loop: aiofiles runs calls that may wait for the disk in the loop's executor.

Each call becomes calls of the wrapped `Files`, one after the other. So a simulated file system with failures,
torn writes or lost writes sees all of them. A thread cannot be interrupted: a cancelled caller returns after the
call in progress has ended and its files are cleaned up. Each call costs a change of threads. So use it for files
that are replaced from time to time, never for appends to logs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

from storage.files import TEMPORARY_SUFFIX, File, Files

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""The size of a write in bytes. A change of threads costs as much as the encoding of a hundred records."""

T = TypeVar("T")


class _Wrap(Protocol):
    def __call__(self, function: Callable[..., T], /) -> Callable[..., Awaitable[T]]: ...


class AsyncFiles:
    """An asynchronous file system. All methods belong to the event loop's thread, and raise OSError."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._wrap: _Wrap | None = None

    async def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return await self.run_in_executor(self.files.listdir, path)

    async def unlink(self, path: str) -> None:
        """Remove a file from its directory."""
        await self.run_in_executor(self.files.unlink, path)

    @asynccontextmanager
    async def new_file(self, path: str, temporary_suffix: str = TEMPORARY_SUFFIX) -> AsyncIterator["NewFile"]:
        """Create a file that becomes `path` with `put_in_place`.

        Until then it has an exclusive temporary name. The end of the block closes it, and removes it unless it is
        in place.
        """
        file = NewFile(self, path, path + temporary_suffix)
        try:
            await self.run_in_executor(file._open)
            yield file
        finally:
            await self.run_in_executor(file._close)

    async def run_in_executor(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the executor and return its result. It runs to its end even if the caller is
        cancelled.
        """
        if self._wrap is None:
            # The import takes as long as several iterations of the loop.
            self._wrap = await asyncio.get_running_loop().run_in_executor(None, _import_wrap)
        running = asyncio.ensure_future(self._wrap(function)(*arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            raise


class NewFile:
    """A file of `AsyncFiles.new_file` that is being written."""

    def __init__(self, files: AsyncFiles, path: str, temporary_path: str) -> None:
        self._files = files
        self._path = path
        self._temporary_path = temporary_path
        self._file: File | None = None
        self._buffered: list[bytes] = []
        self._buffered_bytes = 0
        self._is_synced = False
        self._is_in_place = False

    @property
    def _opened(self) -> File:
        assert self._file is not None, self._path
        return self._file

    async def write(self, data: bytes) -> None:
        """Append all of `data`. Small pieces are buffered and written together."""
        self._is_synced = False
        self._buffered.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes >= WRITE_BUFFER_BYTES:
            await self._write_buffered()

    async def _write_buffered(self) -> None:
        data = b"".join(self._buffered)
        self._buffered.clear()
        self._buffered_bytes = 0
        await self._run_with_path(self._opened.write, data)

    async def sync(self) -> None:
        """Flush the written data to disk; required before `put_in_place`."""
        await self._write_buffered()
        await self._run_with_path(self._opened.fdatasync)
        self._is_synced = True

    async def put_in_place(self) -> None:
        """Rename the file to its path, durably, and replace an existing file. The rename does not wait for the
        disk. It runs before any other callback of the loop, so the caller's earlier checks still hold."""
        assert self._is_synced, self._path
        self._files.files.replace(self._temporary_path, self._path)
        self._is_in_place = True
        await self._run_with_path(self._files.files.fsync_directory, os.path.dirname(self._path))

    async def _run_with_path(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function and add the path to its OSError, which lacks it for writes."""
        try:
            await self._files.run_in_executor(function, *arguments)
        except OSError as error:
            error.filename = error.filename or self._path
            raise

    def _open(self) -> None:
        self._file = self._files.files.open_append(self._temporary_path)
        self._file.truncate(0)

    def _close(self) -> None:
        if self._file is None:
            return
        self._file.close()
        self._file = None
        if not self._is_in_place:
            # A leftover file is removed or overwritten the next time.
            with suppress(OSError):
                self._files.files.unlink(self._temporary_path)


def _import_wrap() -> _Wrap:
    from aiofiles.os import wrap

    return wrap
