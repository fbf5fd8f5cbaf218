"""An in-process `KeyValueStore` over the model map; leases expire by the clock."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from coordinator.cluster.key_value_store import (
    EtcdNodeStatus,
    KeyChanges,
    KeyEntry,
    KeyPage,
    ReadRange,
    RevisionsCompacted,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.core import clock
from tests.cluster.model_map import ModelMap

T = TypeVar("T")
LOOK_S = 0.02


class ModelStore:
    """What all daemons of a cluster share."""

    def __init__(self) -> None:
        self.map = ModelMap()
        self.history: list[KeyChanges] = []
        self.forgotten = 0
        """Events up to this revision are compacted."""
        self._before: dict[bytes, KeyEntry] = {}

    def changes_after(self, revision: int) -> list[KeyChanges]:
        """Return the changes after a revision, oldest first."""
        newer = itertools.takewhile(lambda changes: changes.revision > revision, reversed(self.history))
        return list(newer)[::-1]

    def begin_anew(self) -> None:
        """Drop all earlier events; watchers get no deletions for the old keys."""
        self.history.clear()
        self._before.clear()

    def forget(self, revision: int) -> None:
        """Compact all revisions before `revision`."""
        self.forgotten = revision

    def as_of(self, read: ReadRange) -> KeyPage:
        """Read the map as of a revision. Raises RevisionsCompacted."""
        if read.revision < self.forgotten:
            raise RevisionsCompacted(str(self.forgotten))
        then = ModelMap()
        for changes in self.history:
            if changes.revision <= read.revision:
                then.restore(changes.written, changes.deleted)
        return then.read(read)._replace(revision=self.map.revision)

    def do(self, act: Callable[[ModelMap], T]) -> T:
        """Expire due leases, then run an operation on the map."""
        self.map.passed(clock.boot_ms())
        self._note()
        try:
            return act(self.map)
        finally:
            self._note()

    def _note(self) -> None:
        before, after = self._before, self.map.entries
        if self.map.revision == (self.history[-1].revision if self.history else 1):
            return
        written = tuple(entry for key, entry in after.items() if before.get(key) != entry)
        deleted = tuple(key for key in before if key not in after)
        self._before = dict(after)
        self.history.append(KeyChanges(self.map.revision, written, deleted))


class ModelConnection:
    """One daemon's connection to it. `cut` lets nothing through."""

    endpoints: tuple[str, ...] = ("model",)

    def __init__(self, store: ModelStore) -> None:
        self.store = store
        self.is_cut = False
        self.is_slow_to_see = False
        """Watches say nothing."""
        self.said: dict[str, Any] = {}
        """What else it says of itself."""

    async def _do(self, act: Callable[[ModelMap], T]) -> T:
        await asyncio.sleep(0)
        if self.is_cut:
            await asyncio.sleep(LOOK_S)
            raise StoreUnavailable("cut off")
        return self.store.do(act)

    async def fetch_version(self) -> str:
        return "3.6.0"

    async def fetch_node_statuses(self) -> list[EtcdNodeStatus]:
        if self.is_cut:
            return [EtcdNodeStatus("model", problem="cut off")]
        return [EtcdNodeStatus("model", "3.6.0", is_leader=True, has_leader=True, **self.said)]

    async def fetch_lease_left_s(self, lease: int) -> int:
        found = self.store.map.leases.get(lease)
        return 0 if found is None else max(0, found.ends_ms - clock.boot_ms()) // 1000

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        return await self._do(lambda map_: map_.transact(transaction))

    async def read(self, read: ReadRange) -> KeyPage:
        return await self._do(lambda map_: self.store.as_of(read) if read.revision else map_.read(read))

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._do(lambda map_: map_.grant(ttl_s * 1000, clock.boot_ms()))

    async def renew_lease(self, lease: int) -> None:
        await self._do(lambda map_: map_.keep_alive(lease, clock.boot_ms()))

    async def revoke_lease(self, lease: int) -> None:
        await self._do(lambda map_: map_.revoke(lease))

    async def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[KeyChanges]:
        seen = revision - 1
        if revision <= self.store.forgotten:
            raise RevisionsCompacted(str(self.store.forgotten))
        while True:
            if not self.is_cut and not self.is_slow_to_see:
                self.store.do(lambda _: None)
                for changes in self.store.changes_after(seen):
                    seen = changes.revision
                    written = tuple(entry for entry in changes.written if begin <= entry.key < end)
                    deleted = tuple(key for key in changes.deleted if begin <= key < end)
                    if written or deleted:
                        yield KeyChanges(changes.revision, written, deleted)
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        self.is_cut = True
