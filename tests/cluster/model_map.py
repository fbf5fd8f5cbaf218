"""A model of the engine: a map with revisions, transactions and leases, on a clock that the test sets."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    KeyEntry,
    KeyPage,
    LeaseExpired,
    Put,
    ReadRange,
    StoreRequestTooLarge,
    StoreTransaction,
    TransactionResult,
    WrittenAt,
)

MAX_REQUEST_BYTES = 3 << 19
MAX_OPERATIONS = 128


@dataclass
class Lease:
    """Ends at `ends_ms`; its keys go with it."""

    ttl_ms: int
    ends_ms: int
    keys: set[bytes] = field(default_factory=set)


class ModelMap:
    """What the engine holds. Nothing is lost or late here: that is the network's part."""

    def __init__(self) -> None:
        self.revision = 1
        self.entries: dict[bytes, KeyEntry] = {}
        self.leases: dict[int, Lease] = {}
        self._last_lease = 0
        self._keys: list[bytes] = []
        """Of all entries, in order."""

    def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """Raises StoreRequestTooLarge, LeaseExpired."""
        puts = [operation for operation in transaction.operations if isinstance(operation, Put)]
        if max(len(transaction.compares), len(transaction.operations)) > MAX_OPERATIONS:
            raise StoreRequestTooLarge(f"{len(transaction.compares)} comparisons")
        if sum(len(put.key) + len(put.value) for put in puts) > MAX_REQUEST_BYTES:
            raise StoreRequestTooLarge("the request is too large")
        if not all(self._holds(compare) for compare in transaction.compares):
            return TransactionResult(False, self.revision)
        for put in puts:
            if put.lease and put.lease not in self.leases:
                raise LeaseExpired(str(put.lease))
        if transaction.operations:
            self.revision += 1
        for operation in transaction.operations:
            if isinstance(operation, Put):
                self._put(operation)
            else:
                self._delete(operation)
        return TransactionResult(True, self.revision)

    def read(self, read: ReadRange) -> KeyPage:
        """As the map is now."""
        keys = self._range(read.key, read.end)
        has_more = bool(read.limit) and len(keys) > read.limit
        chosen = keys[: read.limit] if read.limit else keys
        return KeyPage(tuple(self.entries[key] for key in chosen), has_more, self.revision)

    def restore(self, written: Iterable[KeyEntry], deleted: Iterable[bytes]) -> None:
        """Apply the known changes of one revision."""
        for key in deleted:
            self._remove(key)
        for entry in written:
            if entry.key not in self.entries:
                insort(self._keys, entry.key)
            self.entries[entry.key] = entry

    def grant(self, ttl_ms: int, now_ms: int) -> int:
        """A new lease."""
        self._last_lease += 1
        self.leases[self._last_lease] = Lease(ttl_ms, now_ms + ttl_ms)
        return self._last_lease

    def keep_alive(self, lease: int, now_ms: int) -> None:
        """Raises LeaseExpired."""
        if lease not in self.leases:
            raise LeaseExpired(str(lease))
        self.leases[lease].ends_ms = now_ms + self.leases[lease].ttl_ms

    def revoke(self, lease: int) -> None:
        """Revoke a lease; an unknown lease is not an error."""
        gone = self.leases.pop(lease, None)
        if gone is not None and gone.keys:
            self.revision += 1
            for key in sorted(gone.keys):
                self._remove(key)

    def passed(self, now_ms: int) -> None:
        """Expire all due leases."""
        for lease in [lease for lease, of in self.leases.items() if of.ends_ms <= now_ms]:
            self.revoke(lease)

    def _holds(self, compare: WrittenAt | CreatedAt) -> bool:
        entry = self.entries.get(compare.key)
        if entry is None:
            return compare.revision == ABSENT
        return compare.revision == (entry.written_at if isinstance(compare, WrittenAt) else entry.created_at)

    def _put(self, put: Put) -> None:
        before = self.entries.get(put.key)
        if before is not None and before.lease:
            self.leases[before.lease].keys.discard(put.key)
        if put.lease:
            self.leases[put.lease].keys.add(put.key)
        if before is None:
            insort(self._keys, put.key)
        created_at = self.revision if before is None else before.created_at
        self.entries[put.key] = KeyEntry(put.key, put.value, created_at, self.revision, put.lease)

    def _delete(self, delete: Delete) -> None:
        for key in self._range(delete.key, delete.end):
            entry = self._remove(key)
            if entry.lease:
                self.leases[entry.lease].keys.discard(key)

    def _remove(self, key: bytes) -> KeyEntry:
        del self._keys[bisect_left(self._keys, key)]
        return self.entries.pop(key)

    def _range(self, begin: bytes, end: bytes | None) -> list[bytes]:
        if end is None:
            return [begin] if begin in self.entries else []
        return self._keys[bisect_left(self._keys, begin) : bisect_left(self._keys, end)]
