"""Reads keys of the engine and skips unreadable ones: a single bad key must not stop a daemon."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from coordinator.cluster.engine.engine import Entry
from coordinator.cluster.key_values import UnreadableKey, key_text

_LOG: Final = logging.getLogger("Cluster")

T = TypeVar("T")


class KeyReader:
    """Names each key that it skips once, and again when it is written with another value that cannot be read."""

    def __init__(self) -> None:
        self._skipped: dict[bytes, int] = {}
        """The keys that were skipped, and the revisions at which they were written."""

    def read(self, entry: Entry, parse: Callable[[Entry], T]) -> T | None:
        """Return what `parse` makes of a key; None where it raises, since the key is not what groupd writes."""
        try:
            found = parse(entry)
        except UnreadableKey as error:
            self._skip(entry, str(error))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            self._skip(entry, f"is not what groupd writes: {error!r}")
        else:
            self.forget(entry.key)
            return found
        return None

    def forget(self, key: bytes) -> None:
        """A key is gone, or can be read again."""
        self._skipped.pop(key, None)

    def _skip(self, entry: Entry, why: str) -> None:
        if self._skipped.get(entry.key) != entry.written_at:
            self._skipped[entry.key] = entry.written_at
            _LOG.error("Skipped the key %s in etcd: it %s", key_text(entry.key), why)
