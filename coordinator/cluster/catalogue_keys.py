"""The catalogue of a cluster as keys that all daemons share: topics, configs of groups and blocks of producer ids.

Every daemon has a mirror of the keys, which a watch updates. A daemon writes only the differences between two
versions of its own catalogue, so it never touches a topic of another daemon that it has not adopted yet. Each
changed key is compared with the revision of the mirror. So the second of two concurrent changes of a topic starts
over and merges both (`shared_topic`).
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, parse_number, parse_object
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    GuardedKeyValueStore,
    KeyChanges,
    KeyEntry,
    KeyValueStore,
    Put,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
    WrittenAt,
)
from coordinator.cluster.member.key_mirror import KeyReader, read_range
from coordinator.cluster.partition_log_store import retry_unavailable
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.cluster.shared_topic import (
    SharedTopic,
    encode_topic,
    merge_configs,
    merge_topic,
    parse_topic,
)

PRODUCER_ID_BLOCK: Final = 1000
_MAX_TRIES: Final = 60
_RETRY_S: Final = 0.1
_MAX_CHANGED: Final = 30
"""Maximum keys in a transaction, below etcd's default limit of 128 operations."""
_MAX_REMOVED: Final = 15
"""Maximum topics removed in one transaction; each also deletes some ranges of keys."""
_TOPIC_FIELDS: Final = ("topic_id", "partitions", "configs", "replication_factor")
_MAX_CONFLICTS: Final = 10
"""Number of conflicts with changes of other daemons after which a write fails."""


PlaceReplicas = Callable[[str, int, int], Sequence[Sequence[int]]]
"""Returns the replicas of each partition of a topic; takes its name, its partitions and its replication factor."""


class CatalogueKeys:
    """The mirror of the catalogue of a cluster, and its changes. All methods belong to the event loop's thread."""

    def __init__(self, store: KeyValueStore, keys: ClusterKeys, replicas: PlaceReplicas) -> None:
        """Create an empty mirror. `replicas` places new partitions; existing partitions of a growing topic stay."""
        self.topics: dict[str, SharedTopic] = {}
        """Topics of the mirror, by name."""
        self.unreadable: set[str] = set()
        """Names of topics with unreadable keys. A topic that this daemon knew before keeps its state."""
        self._reader = KeyReader()
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.adopting: set[str] = set()
        """Ids of topics of other daemons that this daemon is creating now: it never writes them to the store."""
        self.cluster_entry: KeyEntry | None = None
        """The key of the cluster's identity; None if it is not compared."""
        self._unguarded = store
        self._store: KeyValueStore = store
        self._keys = keys
        self._replicas = replicas
        self._written_at: dict[bytes, int] = {}
        self._baseline: dict[bytes, bytes] = {}
        """This daemon's own catalogue at its last write to disk, without leaders."""
        self._deleted_while_reading: dict[bytes, int] = {}
        """Keys that were deleted during a read, with the revision of the deletion."""
        self._reads = 0
        """Number of reads in progress."""
        self._read_revision = ABSENT
        """Revision of the last complete read: earlier keys that are not in the mirror are deleted."""
        self._is_reading = asyncio.Lock()
        self._is_writing = asyncio.Lock()

    async def read_cluster_entry(self) -> None:
        """Read the cluster's identity, which guards all later reads and writes. Raises KeyValueStoreError."""
        page = await self._unguarded.read(ReadRange(self._keys.meta))
        if not page.entries:
            raise StoreUnavailable("etcd does not have the identity of the cluster")
        [entry] = page.entries
        self.cluster_entry = entry
        self._store = GuardedKeyValueStore(self._unguarded, CreatedAt(entry.key, entry.created_at))

    async def _check_cluster(self) -> None:
        """Check the cluster's identity before the result of a read is used. Raises KeyValueStoreError."""
        if self.cluster_entry is None:
            return
        page = await self._store.read(ReadRange(self.cluster_entry.key))
        if [entry.value for entry in page.entries] != [self.cluster_entry.value]:
            raise StoreUnavailable("etcd no longer has the identity of the cluster")

    # Mirror

    async def read_all_keys(self) -> int:
        """Read the whole catalogue. Return the revision from which to watch it. Raises KeyValueStoreError."""
        async with self._is_reading:
            with self._reading():
                entries: list[KeyEntry] = []
                revision = 0
                for begin, end in self.ranges:
                    found, revision = await read_range(self._store, begin, end, revision)
                    entries += found
                await self._check_cluster()
                there = {entry.key for entry in entries}
                # Keys that were watched or written since that revision are newer.
                for key in [key for key, at in self._written_at.items() if at <= revision]:
                    if key not in there:
                        self._forget(key, revision)
                for entry in entries:
                    self._put_found(entry)
                self._read_revision = revision
        return revision + 1

    async def refresh_keys(self, keys: Iterable[bytes]) -> None:
        """Read the current values of some keys. Raises KeyValueStoreError."""
        with self._reading():
            pages = [(key, await self._store.read(ReadRange(key))) for key in keys]
            await self._check_cluster()
            for key, page in pages:
                for entry in page.entries:
                    if key in self._written_at or entry.written_at > self._read_revision:
                        self._put_found(entry)
                if not page.entries and self._written_at.get(key, ABSENT) <= page.revision:
                    self._forget(key, page.revision)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Record deletions during a read, so that its result does not restore deleted keys."""
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1
            if not self._reads:
                self._deleted_while_reading.clear()

    def _put_found(self, entry: KeyEntry) -> None:
        """Put a key that a read has found, unless it was deleted meanwhile."""
        if self._deleted_while_reading.get(entry.key, ABSENT) < entry.written_at:
            self._put_newer(entry)

    async def refresh_topics(self, names: Iterable[str]) -> None:
        """Read the current state of topics by name. Raises KeyValueStoreError."""
        await self.refresh_keys([self._keys.topic(name) for name in names])

    def guard_topic(self, name: str) -> CreatedAt:
        """Return a comparison that holds while the store has the same topic of that name as the mirror."""
        return CreatedAt(self._keys.topic(name), self.topics[name].created_at)

    @property
    def ranges(self) -> list[tuple[bytes, bytes]]:
        """Ranges of the keys to watch."""
        return [self._keys.kind_range("topics"), self._keys.kind_range("group_configs")]

    def apply_changes(self, changes: KeyChanges) -> None:
        """Apply watched changes; changes older than the mirror have no effect."""
        for entry in changes.written:
            self._put_newer(entry)
        for key in changes.deleted:
            if self._written_at.get(key, ABSENT) < changes.revision:
                self._forget(key, changes.revision)

    def _put_newer(self, entry: KeyEntry) -> None:
        if entry.written_at > self._written_at.get(entry.key, ABSENT):
            self._put(entry)

    def _put(self, entry: KeyEntry) -> None:
        kind, name = self._parse_key(entry.key)
        if kind == "topics":
            topic = self._reader.parse_entry(entry, lambda entry: parse_topic(name, entry))
            if topic is None:
                # The mirror keeps its older revision, so that this daemon never overwrites the key.
                self.unreadable.add(name)
                return
            self.unreadable.discard(name)
            self.topics[name] = topic
        else:
            configs = self._reader.parse_entry(entry, _parse_configs)
            if configs is None:
                return
            self.group_configs[name] = configs
        self._written_at[entry.key] = entry.written_at

    def _forget(self, key: bytes, revision: int) -> None:
        """Remove a key that was deleted at a revision."""
        if self._reads:
            self._deleted_while_reading[key] = revision
        self._written_at.pop(key, None)
        self._reader.forget(key)
        kind, name = self._parse_key(key)
        if kind == "topics":
            self.unreadable.discard(name)
        (self.topics if kind == "topics" else self.group_configs).pop(name, None)

    def _parse_key(self, key: bytes) -> tuple[str, str]:
        for kind in ("topics", "group_configs"):
            begin, _ = self._keys.kind_range(kind)
            if key.startswith(begin):
                return kind, key[len(begin) :].decode("utf-8", "surrogateescape")
        raise AssertionError(key)

    def to_document(
        self, deleted: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, object]] = ()
    ) -> dict[str, object]:
        """Return the mirror in the form of the catalogue's file.

        Args:
            deleted: Deleted topics that may still have directories.
            kept: Entries of the file for topics with unreadable keys.
        """
        return {
            "version": 1,
            "producer_ids_reserved": 0,
            "deleted": list(deleted),
            "topics": [
                {
                    "name": topic.name,
                    **topic.fields,
                    **({"replication_factor": topic.replication_factor} if topic.is_replicated else {}),
                }
                for _, topic in sorted(self.topics.items())
            ]
            + list(kept),
            "groups": dict(self.group_configs),
        }

    # Writes

    def set_baseline(self, document: Mapping[str, Any]) -> None:
        """Set the catalogue that this daemon's disk has, as the baseline of the next write."""
        self._baseline = self._encode_document(document)

    async def write_document(self, document: Mapping[str, Any]) -> None:
        """Write the differences between the baseline and this daemon's own catalogue to the store.

        The caller sets the baseline (`set_baseline`) once the disk has the document. With an earlier baseline, a
        topic that the disk rejected would count as removed at the next write, and be deleted for all daemons.
        Raises ClusterChangeRefused; no part of a rejected topic is written then.
        """
        async with self._is_writing:
            values, before = self._encode_document(document), self._baseline
            changed = [key for key in values if values[key] != before.get(key)]
            removed = [key for key in before if key not in values]
            for first in range(0, len(changed), _MAX_CHANGED):
                await self._write_keys(values, changed[first : first + _MAX_CHANGED], [])
            for first in range(0, len(removed), _MAX_REMOVED):
                await self._write_keys(values, [], removed[first : first + _MAX_REMOVED])

    async def _write_keys(
        self, values: Mapping[bytes, bytes], changed: Sequence[bytes], removed: Sequence[bytes]
    ) -> None:
        for _ in range(_MAX_CONFLICTS):
            entries = [
                (key, value) for key in changed if (value := self._merge_value(key, values[key])) is not None
            ]
            left = {key: self._find_remaining_value(key) for key in removed if self._is_own_entry(key)}
            entries += [(key, value) for key, value in left.items() if value is not None]
            deleted = [key for key, value in left.items() if value is None]
            if not entries and not deleted:
                return
            keys = [*(key for key, _ in entries), *deleted]
            compares = [WrittenAt(key, self._written_at.get(key, ABSENT)) for key in keys]
            if any(compare.revision == ABSENT for compare in compares):
                compares.append(await self._guard_removals())
            operations = (*(Put(key, value) for key, value in entries), *self._iterate_deletions(deleted))
            outcome = await self._transact(StoreTransaction(tuple(compares), operations))
            if outcome.succeeded:
                for key, value in entries:
                    created_at = self._find_creation(key) or outcome.revision
                    self._put(KeyEntry(key, value, created_at, outcome.revision, 0))
                for key in deleted:
                    self._forget(key, outcome.revision)
                return
            if await self._is_done(entries, deleted):
                # The revision of that write is unknown.
                await self.refresh_keys(keys)
                return
            # Another broker has changed one of the keys: the next attempt merges both changes.
            await self.refresh_keys(keys)
        raise ClusterChangeRefused("other brokers of the cluster keep changing the same keys")

    async def _guard_removals(self) -> WrittenAt:
        """Return a comparison that holds until the next removal.

        A transaction that creates a key needs it: its late repetition could otherwise restore the key after another
        daemon has removed it.
        """
        key = self._keys.catalogue_removed
        page = await retry_unavailable(lambda: self._store.read(ReadRange(key)))
        return WrittenAt(key, page.entries[0].written_at if page.entries else ABSENT)

    def _is_own_entry(self, key: bytes) -> bool:
        """Return whether the key still has the object that this daemon removed, and no other one of that name."""
        if key not in self._written_at:
            return False
        kind, name = self._parse_key(key)
        return kind != "topics" or self.topics[name].topic_id == json.loads(self._baseline[key])["topic_id"]

    def _find_remaining_value(self, key: bytes) -> bytes | None:
        """Return the value of a removed key that keeps the group configs of other daemons; None to delete it."""
        kind, name = self._parse_key(key)
        if kind == "topics":
            return None
        merged = merge_configs(json.loads(self._baseline[key]), {}, self.group_configs[name])
        return json.dumps(merged).encode() if merged else None

    def _find_creation(self, key: bytes) -> int:
        kind, name = self._parse_key(key)
        return self.topics[name].created_at if kind == "topics" and name in self.topics else ABSENT

    def _iterate_deletions(self, deleted: Sequence[bytes]) -> Iterator[Put | Delete]:
        """Yield the deletions, for a replicated topic also of its records, so that an owner's append fails."""
        if deleted:
            yield Put(self._keys.catalogue_removed, deleted[-1])
        for key in deleted:
            yield Delete(key)
            kind, name = self._parse_key(key)
            if kind == "topics" and self.topics[name].is_replicated:
                yield from (Delete(*each) for each in self._keys.topic_ranges(name))

    def _merge_value(self, key: bytes, own_value: bytes) -> bytes | None:
        """Return the new value of a key, including replicas. Return None if the key already has it, or if the topic
        was deleted while this daemon adopted it. Raises ClusterChangeRefused.
        """
        kind, name = self._parse_key(key)
        own = json.loads(own_value)
        before = json.loads(self._baseline[key]) if key in self._baseline else None
        if kind != "topics":
            shared = self.group_configs.get(name, {})
            merged = merge_configs(before or {}, own, shared)
            return None if merged == shared else json.dumps(merged).encode()
        topic = self.topics.get(name)
        shared_fields = None if topic is None else topic.fields
        if topic is None and own["topic_id"] in self.adopting:
            return None
        fields = merge_topic(name, before, own, shared_fields)
        if fields == shared_fields:
            return None
        fields.pop("replication_factor", None)  # The key has the replicas instead.
        factor = own.get("replication_factor", 1)
        replicas = [] if topic is None else list(topic.replicas)
        replicas += self._replicas(name, fields["partitions"], factor)[len(replicas) :]
        is_replicated = factor > 1 if topic is None else topic.is_replicated
        return encode_topic(fields, replicas, is_replicated)

    async def reassign_replicas(self, name: str, partition: int, replicas: Sequence[int]) -> None:
        """Change a replicated partition's replicas. Raises ClusterChangeRefused, KeyValueStoreError."""
        key = self._keys.topic(name)
        for _ in range(_MAX_CONFLICTS):
            topic = self.topics.get(name)
            if topic is None or not topic.is_replicated or partition >= topic.partitions:
                raise ClusterChangeRefused(f"{name}-{partition} is gone")
            all_replicas = [*topic.replicas]
            all_replicas[partition] = list(replicas)
            put = Put(key, encode_topic(topic.fields, all_replicas, is_replicated=True))
            compare = WrittenAt(key, self._written_at.get(key, ABSENT))
            outcome = await self._transact(StoreTransaction((compare,), (put,)))
            await self.refresh_keys([key])
            refreshed = self.topics.get(name)
            has_them = (
                refreshed is not None and list(replicas) in refreshed.replicas[partition : partition + 1]
            )
            if outcome.succeeded or has_them:
                return
        raise ClusterChangeRefused("other brokers of the cluster keep changing the same keys")

    async def _transact(self, transaction: StoreTransaction) -> TransactionResult:
        for _ in range(_MAX_TRIES - 1):
            try:
                return await self._store.transact(transaction)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_S)
        try:
            return await self._store.transact(transaction)
        except StoreUnavailable as error:
            raise ClusterChangeRefused("etcd does not answer") from error

    async def _is_done(self, entries: Sequence[tuple[bytes, bytes]], deleted: Sequence[bytes]) -> bool:
        """Return whether an unanswered attempt has succeeded."""
        for key, value in entries:
            page = await self._store.read(ReadRange(key))
            if not page.entries or page.entries[0].value != value:
                return False
        for key in deleted:
            page = await self._store.read(ReadRange(key))
            if page.entries:
                return False
        return True

    def _encode_document(self, document: Mapping[str, Any]) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for topic in document["topics"]:
            fields = {field: topic[field] for field in _TOPIC_FIELDS if field in topic}
            values[self._keys.topic(topic["name"])] = json.dumps(fields).encode()
        for group_id, configs in document.get("groups", {}).items():
            values[self._keys.group_config(group_id)] = json.dumps(configs).encode()
        return values

    # Producer ids

    async def reserve_producer_ids(self) -> int:
        """Reserve a block of `PRODUCER_ID_BLOCK` ids in the store and return the first one. Raises
        ClusterChangeRefused.
        """
        for _ in range(_MAX_TRIES):
            try:
                page = await self._store.read(ReadRange(self._keys.producer_ids))
                first = parse_number(page.entries[0].value) if page.entries else 0
                written_at = page.entries[0].written_at if page.entries else ABSENT
                compare = WrittenAt(self._keys.producer_ids, written_at)
                put = Put(self._keys.producer_ids, b"%d" % (first + PRODUCER_ID_BLOCK))
                outcome = await self._store.transact(StoreTransaction((compare,), (put,)))
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_S)
                continue
            except UnreadableKey as error:
                raise ClusterChangeRefused(f"the key of the next producer id in etcd {error}") from error
            if outcome.succeeded:
                return first
        raise ClusterChangeRefused("etcd did not allocate producer ids in time")


def _parse_configs(entry: KeyEntry) -> dict[str, str]:
    """Return the configs of a group. Raises UnreadableKey."""
    configs = parse_object(entry.value)
    if not all(isinstance(value, str) for value in configs.values()):
        raise UnreadableKey("has a config that is not text")
    return configs
