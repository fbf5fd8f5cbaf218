"""ACLs and SCRAM users in a cluster: one key each, shared by all brokers.

Every broker authorizes by a mirror of the keys, which a watch updates. Each change also writes the key
`security_changed` and compares that its revision is the one of the mirror. So the second of two concurrent changes
starts over, and a late attempt after another change has no effect. The broker answers a change when its own mirror
has it. The others have it some milliseconds later.

A broker that cannot reach the store authorizes by its last state, as a Kafka broker without controllers does. It
does the same if the store has lost the keys or has invalid ones, and then rejects changes.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, format_key, parse_object
from coordinator.cluster.key_value_store import (
    ABSENT,
    Delete,
    KeyChanges,
    KeyEntry,
    KeyValueStore,
    KeyValueStoreError,
    Put,
    StoreTransaction,
    WrittenAt,
)
from coordinator.cluster.member.key_mirror import mirror_keys, read_range
from coordinator.cluster.partition_log_store import retry_unavailable
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.core.message_text import StartFailed
from coordinator.security.core.security_state import VERSION, SecurityState
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("SecurityManager")
_MAX_OPERATIONS: Final = 100
"""Maximum operations in a transaction, below etcd's default limit of 128."""
_MAX_BYTES: Final = 1 << 20
_MAX_CONFLICTS: Final = 20
_TIMEOUT_S: Final = 30


class SharedSecurity:
    """A `SecurityStorage`. All methods belong to the event loop's thread."""

    def __init__(self, store: KeyValueStore, keys: ClusterKeys) -> None:
        self.state = SecurityState()
        """State of the mirror."""
        self.on_changed: Callable[[SecurityState], None] = lambda _: None
        """Called with every new state; set by the authorizer."""
        self._store = store
        self._keys = keys
        self._entries: dict[bytes, bytes] = {}
        self._changed_at = ABSENT
        """The revision of the last change."""
        self.problem = ""
        """Why the current keys of the store are not in use; empty if they are."""
        self._revision_changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    # Mirror

    async def read_state(self) -> None:
        """Read the state before the first authorization. Raises KeyValueStoreError; StartFailed on invalid keys."""
        entries, _ = await read_range(self._store, *self._keys.kind_range("security"))
        self._put_entries(entries)
        try:
            self.state = _parse_state(self._entries)
        except ValueError as error:
            raise StartFailed(f"invalid ACLs or users of the cluster in etcd: {error}") from error

    def start(self) -> None:
        """Start to watch the keys."""
        begin, end = self._keys.kind_range("security")
        self._run_in_background(
            mirror_keys(self._store, begin, end, self._on_keys_read, self._on_keys_changed)
        )

    def stop(self) -> None:
        """Stop watching the keys."""
        for task in tuple(self._tasks):
            task.cancel()

    def _run_in_background(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_keys_read(self, entries: Sequence[KeyEntry]) -> None:
        if self._entries and not entries:
            # Every change leaves a key, even if all entries are removed later.
            self.problem = "etcd has lost the ACLs and users of the cluster"
            _LOG.error("%s: the previous ones stay in effect", self.problem)
            self._run_in_background(self._notify_waiters())
            return
        self._entries.clear()
        self._put_entries(entries)
        self._update_state()

    def _on_keys_changed(self, changes: KeyChanges) -> None:
        for key in changes.deleted:
            self._entries.pop(key, None)
        self._put_entries(changes.written)
        self._update_state()

    def _put_entries(self, entries: Sequence[KeyEntry]) -> None:
        for entry in entries:
            if entry.key == self._keys.security_changed:
                self._changed_at = entry.written_at
            else:
                self._entries[entry.key] = entry.value

    def _update_state(self) -> None:
        try:
            self.state = _parse_state(self._entries)
        except ValueError as error:
            self.problem = f"another broker wrote invalid ACLs or users: {error}"
            _LOG.error("%s; the previous ones stay in effect", self.problem)
        else:
            self.problem = ""
            self.on_changed(self.state)
        self._run_in_background(self._notify_waiters())

    async def _notify_waiters(self) -> None:
        async with self._revision_changed:
            self._revision_changed.notify_all()

    # Changes

    async def write(self, old: SecurityState, new: SecurityState) -> SecurityState:
        """Write the differences between two states to the store, and return the state after that.

        A change of more than 100 entries takes several transactions. Raises OSError, after which a part of the
        change may be written.
        """
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._write_difference(_encode_state(old), _encode_state(new))
        except (KeyValueStoreError, TimeoutError) as error:
            raise ClusterChangeRefused(f"etcd rejected it: {format_error_reason(error)}") from error

    async def _write_difference(self, old: dict[str, str], new: dict[str, str]) -> SecurityState:
        conflicts = 0
        while conflicts < _MAX_CONFLICTS:
            if self.problem:
                raise ClusterChangeRefused(self.problem)
            changed_at = self._changed_at
            operations = _take_fitting(self._iterate_operations(old, new))
            if not operations:
                return self.state
            own = Put(self._keys.security_changed, b"")
            compare = WrittenAt(self._keys.security_changed, changed_at)
            transaction = StoreTransaction((compare,), (*operations, own))
            outcome = await retry_unavailable(
                lambda transaction=transaction: self._store.transact(transaction)  # type: ignore[misc]
            )
            conflicts += not outcome.succeeded
            if outcome.succeeded:  # later changes of others take precedence
                done = {operation.key for operation in operations}
                old = {name: value for name, value in old.items() if self._keys.security(name) not in done}
                new = {name: value for name, value in new.items() if self._keys.security(name) not in done}
            # After a conflict: another change, or an unanswered attempt of this one, came first.
            await self._wait_for_revision(outcome.revision if outcome.succeeded else changed_at + 1)
        raise ClusterChangeRefused("other brokers of the cluster keep changing the same keys")

    def _iterate_operations(self, old: dict[str, str], new: dict[str, str]) -> Iterator[Put | Delete]:
        """Yield the operations that the mirror does not have yet."""
        for name, value in new.items():
            key = self._keys.security(name)
            if old.get(name) != value and self._entries.get(key) != value.encode():
                yield Put(key, value.encode())
        for name in old.keys() - new.keys():
            if self._keys.security(name) in self._entries:
                yield Delete(self._keys.security(name))

    async def _wait_for_revision(self, revision: int) -> None:
        """Wait until the mirror has that revision or a later one, or has a problem."""
        async with self._revision_changed:
            await self._revision_changed.wait_for(lambda: self._changed_at >= revision or self.problem)


def _take_fitting(operations: Iterable[Put | Delete]) -> list[Put | Delete]:
    """Return the first operations, as many as fit in one transaction."""
    fit: list[Put | Delete] = []
    size = 0
    for operation in operations:
        size += len(operation.key) + (len(operation.value) if isinstance(operation, Put) else 0)
        if len(fit) == _MAX_OPERATIONS or (fit and size > _MAX_BYTES):
            break
        fit.append(operation)
    return fit


def create_security_puts(keys: ClusterKeys, state: SecurityState) -> list[Put]:
    """Return writes of all entries of a state, for a cluster without any."""
    return [Put(keys.security(name), value.encode()) for name, value in _encode_state(state).items()]


def _encode_state(state: SecurityState) -> dict[str, str]:
    """Return each ACL and each credential by a unique name, for credentials a hash of user and mechanism."""
    document: Any = state.to_document()
    found = {}
    for kind, entries in (("acl", document["acls"]), ("scram", document["scram"])):
        for entry in entries:
            named = entry if kind == "acl" else {each: entry[each] for each in ("user", "mechanism")}
            digest = sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
            found[f"{kind}/{digest}"] = json.dumps({kind: entry}, sort_keys=True)
    return found


def _parse_state(entries: Mapping[bytes, bytes]) -> SecurityState:
    """Return the state of all keys. Raises ValueError for an invalid one; skipping it could lift a denial."""
    acls: list[object] = []
    scram: list[object] = []
    for key, value in entries.items():
        try:
            [(kind, entry)] = parse_object(value).items()
        except UnreadableKey as error:
            raise UnreadableKey(f"the key {format_key(key)} {error}") from error
        except ValueError as error:
            raise UnreadableKey(f"the key {format_key(key)} is neither an ACL nor a user") from error
        (acls if kind == "acl" else scram).append(entry)
    return SecurityState.from_document({"version": VERSION, "acls": acls, "scram": scram})
