"""A small file that holds one JSON document, replaced as a whole: the catalogue of topics, ACLs and
credentials.

A write that fails leaves the document before it in place, also on a full disk:

- The new document goes to a file beside the old one, which is synced and renamed. On a full disk the document is
  written over a *reserve* instead: a file of zeros that was written while there was space.
- When the directory cannot be synced after the renaming, the old document is put back in the same way. It has a
  reserve of its own.

So a change that frees space (the deletion of a topic) succeeds on a full disk. The reserves are created and
enlarged after a write. If that fails, it is tried again after the next write.
"""

import errno
import json
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from storage.files import Files
from storage.storage_errors import DamagedFile, FileClosed

RESERVE_SUFFIXES: Final = (".reserve-1", ".reserve-2")
"""The file name suffixes of the reserves: for a change, and for restoring the old document."""
_JSON: Final = json.JSONEncoder(sort_keys=True)
_RESERVE_STEP: Final = 4096
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class JsonDocument:
    """One document in one file. Safe in several threads; blocks."""

    def __init__(self, files: Files, path: str, *, is_private: bool = False) -> None:
        """Create a document. `is_private`: only the user of this process may read the file."""
        self._files = files
        self._path = path
        self._is_private = is_private
        self._data: bytes | None = None
        """The document that was read or written last; None without one."""
        self._is_loaded = False
        self._is_in_place = False
        """Whether the file is certain to hold `_data`."""
        self._is_closed = False
        self._lock = threading.Lock()

    def read(self) -> object | None:
        """Return the document in the file, or None without a file. Raises DamagedFile, OSError."""
        with self._lock:
            self._read_file()
            data = self._data
        if data is None:
            return None
        try:
            document: object = json.loads(data, object_pairs_hook=_check_unique_names)
        except ValueError as error:
            raise DamagedFile(self._path, f"is not JSON: {error}") from error
        except RecursionError as error:
            raise DamagedFile(self._path, "is not JSON: it is nested too deeply") from error
        return document

    def _read_file(self) -> None:
        self._data = self._files.read(self._path) if self._files.exists(self._path) else None
        self._is_loaded = self._is_in_place = True

    def write(self, document: Mapping[str, object]) -> None:
        """Replace the document atomically and durably. Raises FileClosed, OSError; the old document then stays
        in place, or is restored if the disk allows it."""
        fields = [f" {_JSON.encode(name)}: {_format_value(document[name])}" for name in sorted(document)]
        data = ("{\n" + ",\n".join(fields) + "\n}\n").encode()
        with self._lock:
            if self._is_closed:
                raise FileClosed(self._path, "is closed")
            if not self._is_loaded:
                self._read_file()
            if data == self._data and self._is_in_place:
                # The previous process may have ended between the rename and the sync of the directory.
                self._files.fsync_directory(os.path.dirname(self._path))
            else:
                self._replace(data)
            self._make_reserves(len(data))

    def ensure_reserves(self) -> None:
        """Create the reserves of the document that was read, if the disk allows it."""
        with self._lock:
            if self._data is not None:
                self._make_reserves(len(self._data))

    def close(self) -> None:
        """Wait for a running write, and refuse later ones."""
        with self._lock:
            self._is_closed = True

    def _replace(self, data: bytes) -> None:
        self._is_in_place = False
        try:
            self._write_file(data, self._reserves[:1])
        except OSError:
            with suppress(OSError):
                self._restore()
            raise
        self._data, self._is_in_place = data, True

    def _write_file(self, data: bytes, reserves: Sequence[str]) -> None:
        """Write the document to the file. Raises OSError; the file may then have either document."""
        try:
            self._files.write_atomically(self._path, data, is_private=self._is_private)
        except OSError as error:
            if error.errno not in _FULL or not self._write_over_reserve(reserves, data):
                raise

    def _write_over_reserve(self, reserves: Sequence[str], data: bytes) -> bool:
        """Write the document over a large enough reserve and rename it to the file. Return whether there was
        one. Raises OSError."""
        for reserve in reserves:
            if self._read_size(reserve) < len(data):
                continue
            file = self._files.open_update(reserve)
            try:
                file.write_at(data, 0)
                file.truncate(len(data))
                file.fdatasync()
            finally:
                file.close()
            self._files.replace(reserve, self._path)
            self._files.fsync_directory(os.path.dirname(self._path))
            return True
        return False

    def _restore(self) -> None:
        """Restore the last accepted document. Raises OSError."""
        there = self._files.read(self._path) if self._files.exists(self._path) else None
        if there != self._data:
            if self._data is None:
                self._files.unlink(self._path)
                self._files.fsync_directory(os.path.dirname(self._path))
            else:
                self._write_file(self._data, self._reserves)
        self._is_in_place = True

    # The reserves

    @property
    def _reserves(self) -> list[str]:
        return [self._path + suffix for suffix in RESERVE_SUFFIXES]

    def _read_size(self, path: str) -> int:
        """Return the size of a file in bytes; -1 for a missing file. Raises OSError."""
        return self._files.size(path) if self._files.exists(path) else -1

    def _make_reserves(self, least: int) -> None:
        """Enlarge both reserves to the size of this document and a little more, if the disk allows it."""
        for reserve in self._reserves:
            with suppress(OSError):
                size = self._read_size(reserve)
                if size < 0 and self._is_private:
                    self._files.write_atomically(reserve, b"", is_private=True)
                if size < least + _RESERVE_STEP // 4:
                    wanted = (least // _RESERVE_STEP + 2) * _RESERVE_STEP
                    file = self._files.open_update(reserve)
                    try:
                        file.write_at(bytes(wanted - max(0, size)), max(0, size))
                    finally:
                        file.close()


def _check_unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raise ValueError for a repeated name, because a program other than groupd wrote one of the values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} is given twice in one object")
    return found


def _format_value(value: object) -> str:
    """Format a value. A list gets one line for each element, which is readable and much faster than full
    indentation."""
    if not isinstance(value, list) or not value:
        return _JSON.encode(value)
    return "[\n  " + ",\n  ".join(map(_JSON.encode, value)) + "\n ]"
