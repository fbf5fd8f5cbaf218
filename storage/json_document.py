"""A small file that holds one JSON document, replaced as a whole: the catalogue of topics, what security knows."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from storage.errors import DamagedFile
from storage.files import Files

_JSON: Final = json.JSONEncoder(sort_keys=True)


class JsonDocument:
    """See the top of this file."""

    def __init__(self, files: Files, path: str, *, is_private: bool = False) -> None:
        """In: whether nobody else's processes may read it."""
        self._files = files
        self._path = path
        self._is_private = is_private
        self._data: bytes | None = None
        """What is in the file, as far as that is known."""
        self._lock = threading.Lock()
        self._drafted = self._written = 0

    def read(self) -> object | None:
        """The document last written, None where there is none. Raises DamagedFile, OSError."""
        if not self._files.exists(self._path):
            return None
        self._data = self._files.read(self._path)
        try:
            document: object = json.loads(self._data, object_pairs_hook=_object)
        except ValueError as error:
            raise DamagedFile(self._path, f"is not JSON: {error}") from error
        except RecursionError as error:
            raise DamagedFile(self._path, "is not JSON: it has too many brackets in each other") from error
        return document

    def draft(self, document: Mapping[str, object]) -> Callable[[], None]:
        """What replaces the file, atomically and durably, by a document that JSON can express; call it in any
        thread. It raises OSError, and leaves a document alone that was drafted later.
        """
        self._drafted += 1
        return partial(self._write, self._drafted, document)

    def forget_drafts(self) -> None:
        """What still waits to be written comes too late."""
        with self._lock:
            self._written = self._drafted

    def _write(self, number: int, document: Mapping[str, object]) -> None:
        fields = [f" {_JSON.encode(name)}: {_laid_out(document[name])}" for name in sorted(document)]
        data = ("{\n" + ",\n".join(fields) + "\n}\n").encode()
        with self._lock:
            if number <= self._written:
                return
            if data != self._data:
                self._data = None
                self._files.write_atomically(self._path, data, is_private=self._is_private)
                self._data = data
            else:
                # A crash may have come between its renaming and this.
                self._files.fsync_directory(os.path.dirname(self._path))
            self._written = number


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Raises ValueError where a name is there twice: of what was written here one of the two is not."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} is there twice in one object")
    return found


def _laid_out(value: object) -> str:
    """A list with a line for each of its elements: people read it, and it takes far less time than indented."""
    if not isinstance(value, list) or not value:
        return _JSON.encode(value)
    return "[\n  " + ",\n  ".join(map(_JSON.encode, value)) + "\n ]"
