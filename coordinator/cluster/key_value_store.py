"""Interface of the replicated key-value store below a cluster: a sorted map with revisions, transactions,
leases and watches. Also a store that adds a comparison to every transaction (`GuardedKeyValueStore`), and the
status of a node.

Each change of the map has a revision, a number that grows by one. A key has the revisions of its creation and
of its last write. A transaction compares such revisions and then performs all of its operations or none. Keys
written under a lease disappear when the lease ends.
Every call is *one attempt*. After `StoreUnavailable` the result is unknown: the request may have taken
effect, may still do so, or never will. A store never repeats a request. A caller that repeats it must know
that this is harmless; `partition_appends`, `partition_claims` and `cluster_session` contain that knowledge.
The attempt after a failed one uses another endpoint.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple, Protocol

ABSENT: Final = 0
"""The revision of a key that does not exist."""


class KeyValueStoreError(Exception):
    """What was asked was not answered as hoped for."""


class StoreUnavailable(KeyValueStoreError):
    """No answer within the deadline, or none that says what became of the request."""


class StoreFull(KeyValueStoreError):
    """The store is full, and refuses to write until somebody makes room."""


class StoreAccessDenied(KeyValueStoreError):
    """The user may not do that, or is not known."""


class StoreRequestTooLarge(KeyValueStoreError):
    """The request is larger than the store takes. Nothing of it happened."""


class LeaseExpired(KeyValueStoreError):
    """The lease ended, and its keys with it."""


class RevisionsCompacted(KeyValueStoreError):
    """The revisions that were asked for are forgotten: read what there is now and watch from there on."""


class WrittenAt(NamedTuple):
    """Holds while the last write of a key is the one at `revision` (ABSENT: while there is no such key)."""

    key: bytes
    revision: int


class CreatedAt(NamedTuple):
    """Holds while a key is the one that came into being at `revision` (ABSENT: while there is no such key)."""

    key: bytes
    revision: int


class Put(NamedTuple):
    """Writes a key; `lease` 0 keeps it until somebody deletes it."""

    key: bytes
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Deletes the keys from `key` on, below `end`; without `end` that one key."""

    key: bytes
    end: bytes | None = None


class StoreTransaction(NamedTuple):
    """All operations happen if all comparisons hold, otherwise none. Without operations it only proves something.

    A proof is as linearizable as a write: what it says was true at a moment between question and answer.
    """

    compares: tuple[WrittenAt | CreatedAt, ...]
    operations: tuple[Put | Delete, ...] = ()


class TransactionResult(NamedTuple):
    """What became of a transaction."""

    succeeded: bool
    revision: int
    """Of what it wrote, if it did; otherwise the newest of the map."""


class ReadRange(NamedTuple):
    """Reads keys from `key` on, below `end` (without `end` that one key), in their order. Linearizable."""

    key: bytes
    end: bytes | None = None
    limit: int = 0
    """How many at the most, 0 for all."""
    revision: int = 0
    """As the map was then, 0 for now. Later pages name the revision of the first."""


class KeyEntry(NamedTuple):
    """A key as it was read."""

    key: bytes
    value: bytes
    created_at: int
    written_at: int
    lease: int


class KeyPage(NamedTuple):
    """What a read found."""

    entries: tuple[KeyEntry, ...]
    has_more: bool
    revision: int


class KeyChanges(NamedTuple):
    """What one revision changed, as far as it is watched."""

    revision: int
    written: tuple[KeyEntry, ...]
    deleted: tuple[bytes, ...]


class KeyValueStore(Protocol):
    """A connection to the store. Every method may raise StoreUnavailable, StoreAccessDenied and what its
    text names."""

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """Raises StoreFull, StoreRequestTooLarge; LeaseExpired where a put names a lease that ended."""

    async def read(self, read: ReadRange) -> KeyPage:
        """Raises RevisionsCompacted."""

    async def grant_lease(self, ttl_s: int) -> int:
        """A new lease, which ends `ttl_s` after the store last heard of it. Raises StoreFull."""

    async def renew_lease(self, lease: int) -> None:
        """Raises LeaseExpired."""

    async def revoke_lease(self, lease: int) -> None:
        """Ends a lease; its keys go. One that is gone already is no error."""

    def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[KeyChanges]:
        """Changes of the keys from `begin` on, below `end`, from `revision` on, each once and in order.

        It survives the loss of an endpoint by itself. Raises RevisionsCompacted.
        """

    async def close(self) -> None:
        """Lets go of the connections; leases go on until they end."""


def find_prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`, which is not empty and does not end with 0xff."""
    assert prefix, "a range of everything was asked for"
    assert prefix[-1] < 0xFF, prefix
    return prefix[:-1] + bytes([prefix[-1] + 1])


class GuardedKeyValueStore:
    """A `KeyValueStore` that adds a comparison to every transaction of another one. Leases are not
    guarded."""

    def __init__(self, store: KeyValueStore, guard: WrittenAt | CreatedAt) -> None:
        """In: what has to hold for a transaction to be done."""
        self._store = store
        self._guard = guard

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """A transaction that does not succeed may have failed at the guard."""
        compares = (self._guard, *transaction.compares)
        return await self._store.transact(transaction._replace(compares=compares))

    async def read(self, read: ReadRange) -> KeyPage:
        return await self._store.read(read)

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._store.grant_lease(ttl_s)

    async def renew_lease(self, lease: int) -> None:
        await self._store.renew_lease(lease)

    async def revoke_lease(self, lease: int) -> None:
        await self._store.revoke_lease(lease)

    def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[KeyChanges]:
        return self._store.watch(begin, end, revision)

    async def close(self) -> None:
        await self._store.close()


class EtcdNodeStatus(NamedTuple):
    """The status of one endpoint. Where it did not answer, all but `endpoint` and `problem` is empty."""

    endpoint: str
    version: str = ""
    is_leader: bool = False
    has_leader: bool = False
    size_bytes: int = 0
    """Of its database."""
    quota_bytes: int = 0
    """How large that may grow; 0 where it does not say."""
    is_full: bool = False
    """Whether it takes no writes until somebody makes room, and says so to it."""
    problem: str = ""
    """Why there is no answer, if there is none."""
