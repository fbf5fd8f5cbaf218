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
    """A request to the store failed."""


class StoreUnavailable(KeyValueStoreError):
    """The store did not answer within the deadline, or its answer leaves the result of the request open."""


class StoreFull(KeyValueStoreError):
    """The store is full and rejects writes until an operator frees space."""


class StoreAccessDenied(KeyValueStoreError):
    """The user is unknown or not authorized."""


class StoreRequestTooLarge(KeyValueStoreError):
    """The request is larger than the store accepts. It had no effect."""


class LeaseExpired(KeyValueStoreError):
    """The lease ended, and the store deleted its keys."""


class RevisionsCompacted(KeyValueStoreError):
    """The store has compacted the requested revisions: read the current state and watch from there."""


class WrittenAt(NamedTuple):
    """Holds while the last write of a key is the one at `revision` (ABSENT: while the key does not exist)."""

    key: bytes
    revision: int


class CreatedAt(NamedTuple):
    """Holds while a key is the one that was created at `revision` (ABSENT: while the key does not exist)."""

    key: bytes
    revision: int


class Put(NamedTuple):
    """Writes a key. With `lease` 0 the key stays until it is deleted."""

    key: bytes
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Deletes the keys from `key` on, below `end`; without `end` only `key`."""

    key: bytes
    end: bytes | None = None


class StoreTransaction(NamedTuple):
    """A transaction: the store applies all operations if all comparisons hold, otherwise none.

    A transaction without operations proves its comparisons. Such a proof is linearizable like a write: the
    comparisons held at a moment between request and response.
    """

    compares: tuple[WrittenAt | CreatedAt, ...]
    operations: tuple[Put | Delete, ...] = ()


class TransactionResult(NamedTuple):
    """The result of a transaction."""

    succeeded: bool
    revision: int
    """Revision of its writes if it succeeded, otherwise the newest revision of the map."""


class ReadRange(NamedTuple):
    """Reads keys from `key` on, below `end` (without `end` only `key`), in their order. Linearizable."""

    key: bytes
    end: bytes | None = None
    limit: int = 0
    """Maximum number of keys, 0 for all."""
    revision: int = 0
    """Revision at which to read, 0 for the newest. Later pages name the revision of the first."""


class KeyEntry(NamedTuple):
    """A key and its value, as read."""

    key: bytes
    value: bytes
    created_at: int
    written_at: int
    lease: int


class KeyPage(NamedTuple):
    """The result of a read."""

    entries: tuple[KeyEntry, ...]
    has_more: bool
    revision: int


class KeyChanges(NamedTuple):
    """The changes of the watched keys at one revision."""

    revision: int
    written: tuple[KeyEntry, ...]
    deleted: tuple[bytes, ...]


class KeyValueStore(Protocol):
    """A connection to the store. Every method may raise StoreUnavailable, StoreAccessDenied and the errors that its
    docstring names.
    """

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """Apply a transaction. Raises StoreFull, StoreRequestTooLarge; LeaseExpired if a put names an ended
        lease.
        """

    async def read(self, read: ReadRange) -> KeyPage:
        """Return one page of a range of keys. Raises RevisionsCompacted."""

    async def grant_lease(self, ttl_s: int) -> int:
        """Create a lease, which ends `ttl_s` seconds after its last renewal. Raises StoreFull."""

    async def renew_lease(self, lease: int) -> None:
        """Renew a lease. Raises LeaseExpired."""

    async def revoke_lease(self, lease: int) -> None:
        """End a lease, which deletes its keys. The lease may have ended before."""

    def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[KeyChanges]:
        """Iterate over the changes of the keys from `begin` on, below `end`, from `revision` on, each once and
        in order.

        The watch continues on another endpoint after the loss of one. Raises RevisionsCompacted.
        """

    async def close(self) -> None:
        """Close the connections. Leases continue until they expire."""


def find_prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of keys that start with `prefix`, which must not be empty or end with 0xff."""
    assert prefix, "a range must have an end"
    assert prefix[-1] < 0xFF, prefix
    return prefix[:-1] + bytes([prefix[-1] + 1])


class GuardedKeyValueStore:
    """A `KeyValueStore` that adds a comparison to every transaction of another one. Leases are not guarded."""

    def __init__(self, store: KeyValueStore, guard: WrittenAt | CreatedAt) -> None:
        """Create a guarded store. Every transaction succeeds only while `guard` holds."""
        self._store = store
        self._guard = guard

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """Apply a transaction. If it does not succeed, the guard may be the reason."""
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
    """The status of one endpoint. Without an answer, only `endpoint` and `problem` are set."""

    endpoint: str
    version: str = ""
    is_leader: bool = False
    has_leader: bool = False
    size_bytes: int = 0
    """Size of its database."""
    quota_bytes: int = 0
    """Maximum size of its database; 0 if unknown."""
    is_full: bool = False
    """Whether it reports that it rejects writes until an operator frees space."""
    problem: str = ""
    """Why the endpoint did not answer; empty if it did."""
