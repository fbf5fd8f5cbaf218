"""An `Engine` over the model of the map, in this process, whose leases end by the clock."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from coordinator import clock
from coordinator.cluster.engine.engine import (
    Changes,
    Compacted,
    Entry,
    Outcome,
    Page,
    Read,
    Transaction,
    Unavailable,
)
from coordinator.cluster.engine.node_status import NodeStatus
from tests.cluster.model_map import ModelMap

T = TypeVar("T")
LOOK_S = 0.02


class ModelStore:
    """What all daemons of a cluster share."""

    def __init__(self) -> None:
        self.map = ModelMap()
        self.history: list[Changes] = []
        self.forgotten = 0
        """Up to here, nobody can ask for what was before."""
        self._before: dict[bytes, Entry] = {}

    def changes_after(self, revision: int) -> list[Changes]:
        """Return the changes after a revision, oldest first."""
        newer = itertools.takewhile(lambda changes: changes.revision > revision, reversed(self.history))
        return list(newer)[::-1]

    def begin_anew(self) -> None:
        """Of what was there before nobody is told anything, not even that it went."""
        self.history.clear()
        self._before.clear()

    def forget(self, revision: int) -> None:
        """What was before a revision cannot be asked for any more."""
        self.forgotten = revision

    def as_of(self, read: Read) -> Page:
        """A read of the map as it was at a revision. Raises Compacted."""
        if read.revision < self.forgotten:
            raise Compacted(str(self.forgotten))
        then = ModelMap()
        for changes in self.history:
            if changes.revision <= read.revision:
                then.restore(changes.written, changes.deleted)
        return then.read(read)._replace(revision=self.map.revision)

    def do(self, act: Callable[[ModelMap], T]) -> T:
        """Does something, once leases have ended whose time is over."""
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
        self.history.append(Changes(self.map.revision, written, deleted))


class ModelEngine:
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
            raise Unavailable("cut off")
        return self.store.do(act)

    async def version(self) -> str:
        return "3.6.0"

    async def nodes(self) -> list[NodeStatus]:
        if self.is_cut:
            return [NodeStatus("model", problem="cut off")]
        return [NodeStatus("model", "3.6.0", is_leader=True, has_leader=True, **self.said)]

    async def lease_left_s(self, lease: int) -> int:
        found = self.store.map.leases.get(lease)
        return 0 if found is None else max(0, found.ends_ms - clock.boot_ms()) // 1000

    async def transact(self, transaction: Transaction) -> Outcome:
        return await self._do(lambda map_: map_.transact(transaction))

    async def read(self, read: Read) -> Page:
        return await self._do(lambda map_: self.store.as_of(read) if read.revision else map_.read(read))

    async def grant(self, ttl_s: int) -> int:
        return await self._do(lambda map_: map_.grant(ttl_s * 1000, clock.boot_ms()))

    async def keep_alive(self, lease: int) -> None:
        await self._do(lambda map_: map_.keep_alive(lease, clock.boot_ms()))

    async def revoke(self, lease: int) -> None:
        await self._do(lambda map_: map_.revoke(lease))

    async def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[Changes]:
        seen = revision - 1
        if revision <= self.store.forgotten:
            raise Compacted(str(self.store.forgotten))
        while True:
            if not self.is_cut and not self.is_slow_to_see:
                self.store.do(lambda _: None)
                for changes in self.store.changes_after(seen):
                    seen = changes.revision
                    written = tuple(entry for entry in changes.written if begin <= entry.key < end)
                    deleted = tuple(key for key in changes.deleted if begin <= key < end)
                    if written or deleted:
                        yield Changes(changes.revision, written, deleted)
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        self.is_cut = True
