"""Mirrors a range of keys: reads it, watches it from that revision on, and reads it again when the watch
fails. A single unreadable key must not stop a daemon: it is skipped and logged once for each of its values.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from coordinator.cluster.cluster_keys import UnreadableKey, format_key
from coordinator.cluster.key_value_store import (
    KeyChanges,
    KeyEntry,
    KeyValueStore,
    KeyValueStoreError,
    ReadRange,
)

_LOG: Final = logging.getLogger("Cluster")

_RETRY_S: Final = 0.2
_PAGE_KEYS: Final = 500

T = TypeVar("T")


async def mirror_keys(
    store: KeyValueStore,
    begin: bytes,
    end: bytes,
    on_read: Callable[[Sequence[KeyEntry]], None],
    on_changed: Callable[[KeyChanges], None],
) -> None:
    """Never returns. In: who takes all keys, each time that they were read; who takes each change since."""
    is_logged = False
    while True:
        try:
            entries, revision = await read_range(store, begin, end)
            on_read(entries)
            is_logged = False
            async for changes in store.watch(begin, end, revision + 1):
                on_changed(changes)
        except KeyValueStoreError as error:
            if not is_logged:
                _LOG.warning("What the cluster has below %s is not known: %s", begin.decode(), error)
            is_logged = True
        except Exception as problem:  # noqa: BLE001 - a mirror that stands still is worse
            _LOG.error("Watching %s", begin.decode(), exc_info=problem)
        await asyncio.sleep(_RETRY_S)


async def read_range(
    store: KeyValueStore, begin: bytes, end: bytes, revision: int = 0
) -> tuple[list[KeyEntry], int]:
    """All keys of a range, and the revision at which they were so: that one, or now. Raises KeyValueStoreError."""
    found: list[KeyEntry] = []
    while True:
        page = await store.read(ReadRange(begin, end, _PAGE_KEYS, revision))
        revision = revision or page.revision
        found += page.entries
        if not page.has_more:
            return found, revision
        begin = page.entries[-1].key + b"\0"


class KeyReader:
    """Names each key that it skips once, and again when it is written with another value that cannot be read."""

    def __init__(self) -> None:
        self._skipped: dict[bytes, int] = {}
        """The keys that were skipped, and the revisions at which they were written."""

    def parse_entry(self, entry: KeyEntry, parse: Callable[[KeyEntry], T]) -> T | None:
        """Return what `parse` makes of a key; None where it raises, since the key is not what groupd writes."""
        try:
            found = parse(entry)
        except UnreadableKey as error:
            self._skip_entry(entry, str(error))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            self._skip_entry(entry, f"is not what groupd writes: {error!r}")
        else:
            self.forget(entry.key)
            return found
        return None

    def forget(self, key: bytes) -> None:
        """A key is gone, or can be read again."""
        self._skipped.pop(key, None)

    def _skip_entry(self, entry: KeyEntry, why: str) -> None:
        if self._skipped.get(entry.key) != entry.written_at:
            self._skipped[entry.key] = entry.written_at
            _LOG.error("Skipped the key %s in etcd: it %s", format_key(entry.key), why)
