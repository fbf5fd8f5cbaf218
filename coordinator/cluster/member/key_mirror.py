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
    """Mirror a range of keys; it never returns.

    Args:
        store: Store of the cluster.
        begin: First key.
        end: End of the range.
        on_read: Takes all keys after each complete read.
        on_changed: Takes each later change.
    """
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
                _LOG.warning("Failed to watch the keys below %s, will retry: %s", begin.decode(), error)
            is_logged = True
        except Exception as problem:  # noqa: BLE001 - a stale mirror would be worse
            _LOG.error("Failed to watch the keys below %s", begin.decode(), exc_info=problem)
        await asyncio.sleep(_RETRY_S)


async def read_range(
    store: KeyValueStore, begin: bytes, end: bytes, revision: int = 0
) -> tuple[list[KeyEntry], int]:
    """Return all keys of a range, at `revision` or now, and that revision. Raises KeyValueStoreError."""
    found: list[KeyEntry] = []
    while True:
        page = await store.read(ReadRange(begin, end, _PAGE_KEYS, revision))
        revision = revision or page.revision
        found += page.entries
        if not page.has_more:
            return found, revision
        begin = page.entries[-1].key + b"\0"


class KeyReader:
    """Parses keys, and logs each skipped key once for each unreadable value."""

    def __init__(self) -> None:
        self._skipped: dict[bytes, int] = {}
        """Skipped keys, with the revisions of their values."""

    def parse_entry(self, entry: KeyEntry, parse: Callable[[KeyEntry], T]) -> T | None:
        """Return the result of `parse`; None if it raises, because groupd did not write the key in this form."""
        try:
            found = parse(entry)
        except UnreadableKey as error:
            self._skip_entry(entry, str(error))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            self._skip_entry(entry, f"was not written by groupd: {error!r}")
        else:
            self.forget(entry.key)
            return found
        return None

    def forget(self, key: bytes) -> None:
        """Forget a key that is deleted or readable again."""
        self._skipped.pop(key, None)

    def _skip_entry(self, entry: KeyEntry, why: str) -> None:
        if self._skipped.get(entry.key) != entry.written_at:
            self._skipped[entry.key] = entry.written_at
            _LOG.error("Skipped the key %s in etcd: it %s", format_key(entry.key), why)
