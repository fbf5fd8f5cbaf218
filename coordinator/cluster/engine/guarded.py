"""An engine to which something is done only while a key is as it was: what comes late then is refused."""

from collections.abc import AsyncIterator

from coordinator.cluster.engine.engine import Changes, Engine, Outcome, Page, Read, Transaction, WrittenAt


class GuardedEngine:
    """An `Engine` below which there is another one. Leases are not guarded."""

    def __init__(self, engine: Engine, guard: WrittenAt) -> None:
        """In: what has to hold for a transaction to be done."""
        self._engine = engine
        self._guard = guard

    async def transact(self, transaction: Transaction) -> Outcome:
        """See `Engine`. One that is refused may be so because of the guard."""
        compares = (self._guard, *transaction.compares)
        return await self._engine.transact(transaction._replace(compares=compares))

    async def read(self, read: Read) -> Page:
        """See `Engine`."""
        return await self._engine.read(read)

    async def grant(self, ttl_s: int) -> int:
        """See `Engine`."""
        return await self._engine.grant(ttl_s)

    async def keep_alive(self, lease: int) -> None:
        """See `Engine`."""
        await self._engine.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        """See `Engine`."""
        await self._engine.revoke(lease)

    def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[Changes]:
        """See `Engine`."""
        return self._engine.watch(begin, end, revision)

    async def close(self) -> None:
        """See `Engine`."""
        await self._engine.close()
