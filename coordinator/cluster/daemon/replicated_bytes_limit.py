"""Limits the size of replicated topics in the store, over all brokers.

Every PERIOD_S each broker publishes the size of the partitions that it leads, under a key of its session. It
adds its own writes since then, but sees the writes of others only after they publish. So writes of the last
seconds may exceed the limit.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from coordinator.cluster.cluster_keys import ClusterKeys, parse_number
from coordinator.cluster.key_value_store import (
    KeyChanges,
    KeyEntry,
    KeyValueStore,
    KeyValueStoreError,
    Put,
    StoreTransaction,
)
from coordinator.cluster.member.key_mirror import KeyReader, mirror_keys
from coordinator.cluster.member.session_keeper import SessionKeeper
from storage.storage_errors import StorageError, format_error_reason

_LOG: Final = logging.getLogger("Cluster")
PERIOD_S: Final = 2.0


class ReplicatedBytesLimit:
    """Limits the bytes of topics in etcd, over all brokers. All methods belong to the event loop's thread."""

    def __init__(self, store: KeyValueStore, keys: ClusterKeys, node_id: int, max_bytes: int) -> None:
        self._store = store
        self._keys = keys
        self._node_id = node_id
        self._max_bytes = max_bytes
        self._own = 0
        self._own_key = keys.topic_bytes(node_id)
        self._others: dict[bytes, int] = {}
        """Sizes by the key of each other broker."""
        self._reader = KeyReader()
        self._published: tuple[int, int] = 0, 0
        """The session and the size of the last published value."""
        self._is_full = False
        self._has_logged_delay = False
        """Whether a failure to publish was logged."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def total(self) -> int:
        """Size of all topics, as far as known."""
        return self._own + sum(self._others.values())

    def reserve_bytes(self, size_bytes: int) -> bool:
        """Add bytes to this broker's size if the limit over all brokers allows them. Return whether it does."""
        if self.total + size_bytes > self._max_bytes:
            if not self._is_full:
                self._is_full = True
                _LOG.error(
                    "Replicated topics have %d bytes and accept no records beyond %d "
                    "(cluster.topics.max.bytes)",
                    self.total,
                    self._max_bytes,
                )
            return False
        self._own += size_bytes
        return True

    def start(self, keeper: SessionKeeper, own: Callable[[], int]) -> None:
        """Start to publish and to watch sizes. `own` returns the size of the partitions that this broker leads."""
        loop = asyncio.get_running_loop()
        begin, end = self._keys.kind_range("bytes")
        self._tasks.append(
            loop.create_task(mirror_keys(self._store, begin, end, self._on_keys_read, self._on_keys_changed))
        )
        self._tasks.append(loop.create_task(self._run(keeper, own)))

    def stop(self) -> None:
        """Stop publishing and watching."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, keeper: SessionKeeper, own: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                self._own = own()
            except (StorageError, OSError) as error:
                _LOG.warning("Failed to measure the replicated topics: %s", format_error_reason(error))
                continue
            if self._is_full and self.total <= self._max_bytes * 0.9:
                self._is_full = False
                _LOG.info("Replicated topics have %d bytes and accept records again", self.total)
            session = keeper.session
            if session.lease and self._published != (session.lease, self._own):
                await self._publish_bytes(session.lease)

    async def _publish_bytes(self, lease: int) -> None:
        put = Put(self._keys.topic_bytes(self._node_id), b"%d" % self._own, lease)
        own = self._own
        try:
            await self._store.transact(StoreTransaction((), (put,)))
            self._published, self._has_logged_delay = (lease, own), False
        except KeyValueStoreError as error:
            if not self._has_logged_delay:
                _LOG.info("Failed to publish the size of the replicated topics, will retry: %s", error)
            self._has_logged_delay = True

    def _on_keys_read(self, entries: Sequence[KeyEntry]) -> None:
        self._others = {}
        self._put_entries(entries)

    def _on_keys_changed(self, changes: KeyChanges) -> None:
        for key in changes.deleted:
            self._reader.forget(key)
            self._others.pop(key, None)
        self._put_entries(changes.written)

    def _put_entries(self, entries: Sequence[KeyEntry]) -> None:
        for entry in entries:
            if entry.key != self._own_key:
                found = self._reader.parse_entry(entry, lambda entry: parse_number(entry.value))
                self._others[entry.key] = 0 if found is None else found
