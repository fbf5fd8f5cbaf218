"""`Files` for whoever runs on the event loop: aiofiles does what may wait for the disk in the loop's executor.

Every call is one on the `Files` that was given, one after the other: a file system that fails, tears or forgets
sees all of them here too. A thread cannot be interrupted: who is cancelled leaves when the call under way has ended
and nothing is left of what was begun.

It costs a change of threads for each call: for files that are replaced now and then, never for appends to logs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

from storage.files import TEMPORARY_SUFFIX, File, Files

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""So much is written at a time: a change of threads costs as much as the encoding of a hundred records."""

T = TypeVar("T")


class _Wrap(Protocol):
    def __call__(self, function: Callable[..., T], /) -> Callable[..., Awaitable[T]]: ...


class AsyncFiles:
    """A file system. All methods belong to the event loop's thread, and raise OSError."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._wrap: _Wrap | None = None

    async def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return await self.run_in_executor(self.files.listdir, path)

    async def unlink(self, path: str) -> None:
        """Removes a file."""
        await self.run_in_executor(self.files.unlink, path)

    @asynccontextmanager
    async def new_file(self, path: str, temporary_suffix: str = TEMPORARY_SUFFIX) -> AsyncIterator["NewFile"]:
        """A file that is to be called `path`, and until `put_in_place` has a name of its own, which nobody else may
        use meanwhile. At the end of the block it is closed, and removed unless it is in place."""
        file = NewFile(self, path, path + temporary_suffix)
        try:
            await self.run_in_executor(file._open)
            yield file
        finally:
            await self.run_in_executor(file._close)

    async def run_in_executor(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function gives that runs in the executor, to its end also where the caller is cancelled."""
        if self._wrap is None:
            # The import takes as long as several turns of the loop.
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
    """A file that is being written, see `AsyncFiles.new_file`."""

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
        """Appends all of `data`, together with what comes next where that is little."""
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
        """Makes durable what was written; before that it cannot be put in place."""
        await self._write_buffered()
        await self._run_with_path(self._opened.fdatasync)
        self._is_synced = True

    async def put_in_place(self) -> None:
        """Gives the file its name, durably; whatever had it is replaced.

        The renaming itself waits for no disk and is done before anything else happens on the loop: what the caller
        has just found to be so still is.
        """
        assert self._is_synced, self._path
        self._files.files.replace(self._temporary_path, self._path)
        self._is_in_place = True
        await self._run_with_path(self._files.files.fsync_directory, os.path.dirname(self._path))

    async def _run_with_path(self, function: Callable[..., None], *arguments: Any) -> None:
        """The operating system does not say which file it was that it could not write."""
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
            # Left behind, it is removed or written over the next time.
            with suppress(OSError):
                self._files.files.unlink(self._temporary_path)


def _import_wrap() -> _Wrap:
    from aiofiles.os import wrap

    return wrap
