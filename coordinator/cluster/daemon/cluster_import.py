"""Imports data directories into a new cluster: a standalone directory, or the directories of all daemons after
the loss of the store's data.

    a key that locks daemons out ─▶ logs, topics, … ─▶ the meta key replaces it ─▶ the directories are marked

Daemons cannot join before the meta key exists, and an import of the same directories starts over. After that the
cluster is complete, and an import of the same directories only marks them. So an import may be interrupted at any
point and run again.

Coordinator logs are uploaded as sealed segments, their batches byte for byte, compacted or not. Several
directories may have a copy of such a log; the copy with the latest leader epoch wins, then the longest. Records of
topics stay on disk: the node with the longest log of a partition leads it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from coordinator.cluster.catalogue_keys import PRODUCER_ID_BLOCK, CatalogueKeys
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon.cluster_identity import (
    ClusterIdentity,
    create_identity,
    encode_identity,
    mark_member,
    read_identity,
)
from coordinator.cluster.daemon.etcd_status import EtcdClient, wait_for_etcd
from coordinator.cluster.daemon.import_source import ImportRefused, ImportSource
from coordinator.cluster.daemon.shared_security import create_security_puts
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    GuardedKeyValueStore,
    KeyValueStore,
    KeyValueStoreError,
    Put,
    ReadRange,
    StoreFull,
    StoreRequestTooLarge,
    StoreTransaction,
    WrittenAt,
)
from coordinator.cluster.partition_log_store import (
    MAX_SEGMENTS,
    Manifest,
    PartitionLogStore,
    TokenLost,
    UnsealedSegment,
    retry_unavailable,
)
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.config.properties import Config
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.security.core.security_state import SecurityState
from storage.files import Files
from storage.log import PartitionLog
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

T = TypeVar("T")
_MAX_PUTS: Final = 100
SEGMENT_BYTES: Final = 128 << 20
"""Maximum size of a segment. 60 such segments are as much as etcd is designed for."""
_UNSEEN_PRODUCER_IDS: Final = 1000 * PRODUCER_ID_BLOCK
"""Producer ids to skip after the last one in a log, if the allocated ids are unknown: others may be in use."""


class ImportResult(NamedTuple):
    """The result of an import."""

    cluster_id: str
    topics: int
    partitions: int
    """Partitions of `__consumer_offsets` with records."""
    size_bytes: int
    """Total size of these partitions."""
    was_done: bool
    """Whether an earlier import of the same directories had completed."""
    left_out: Sequence[str]
    """Data that the cluster does not get, one line each."""


async def import_directories(
    store: EtcdClient,
    files: Files,
    paths: Sequence[str],
    config: Config,
    properties: Mapping[str, str],
    node_id: int | None = None,
    cluster_id: str | None = None,
) -> ImportResult:
    """Open data directories, check them, import them, and close them.

    Args:
        store: The cluster's etcd.
        files: File system of the directories.
        paths: Absolute paths of the directories.
        config: Configuration of the brokers.
        properties: Explicitly set properties.
        node_id: Expected node id of the directories; None for any.
        cluster_id: Expected cluster id of the directories; None for any.

    Raises:
        ImportRefused: The directories or the store do not allow an import.
        StartFailed: etcd is not available.
    """
    directories: list[ImportSource] = []
    try:
        for path in paths:
            directories.append(ImportSource(files, path, config, properties, node_id))
            directories[-1].check_importable()
        one = ClusterImport(store, config.cluster_etcd_prefix, files, directories)
        if cluster_id not in (None, one.cluster_id):
            raise ImportRefused(f"{paths[0]}: is of cluster {one.cluster_id}, but CLUSTER_ID is {cluster_id}")
        await wait_for_etcd(store, store.fetch_version)
        return await one.run()
    except OSError as error:
        raise ImportRefused(f"{format_error_reason(error)}: import again") from error
    finally:
        for each in directories:
            each.close()


class ClusterImport:
    """One import. All methods belong to the event loop's thread."""

    def __init__(
        self, store: KeyValueStore, prefix: str, files: Files, directories: Sequence[ImportSource]
    ) -> None:
        """Create an import of checked directories. Raises ImportRefused if they do not belong together."""
        assert directories
        self._store = store
        self._files = files
        self._directories = directories
        self.cluster_id = _require_same(
            "cluster ids", {each.path: each.meta.cluster_id for each in directories}
        )
        _require_different("node.id", {each.path: each.meta.node_id for each in directories})
        self._partitions = _require_same(
            "numbers of partitions of __consumer_offsets",
            {each.path: each.partitions for each in directories},
        )
        if "/" in self.cluster_id:
            raise ImportRefused(
                f"{directories[0].path}: its cluster id {self.cluster_id} has a '/', "
                "which the id of a cluster on etcd must not have"
            )
        self._keys = ClusterKeys(self.cluster_id, prefix)
        self._ids = sorted(each.meta.directory_id for each in directories)

    async def run(self) -> ImportResult:
        """Import the directories. Raises ImportRefused, StartFailed, OSError."""
        try:
            meta = await retry_unavailable(lambda: read_identity(self._store, self._keys))
            if meta is not None:
                if sorted(meta.imported) != self._ids:
                    raise self._create_not_empty_error()
                self._mark_directories(meta)
                return ImportResult(self.cluster_id, len(self._merge_topics()), 0, 0, True, ())
            guard = await self._lock_cluster()
            # The guard rejects a late attempt that lands when daemons already use the imported data.
            guarded = GuardedKeyValueStore(self._store, guard)
            partitions, size_bytes = await self._upload_logs(guarded)
            await self._write_catalogue(guarded)
            await self._write_security(guarded)
            await self._finish_import(guard)
        except StoreFull as error:
            raise ImportRefused(f"etcd is full: free space in it and import again: {error}") from error
        except StoreRequestTooLarge as error:
            raise ImportRefused(
                f"etcd rejects a request as too large: raise its --max-request-bytes: {error}"
            ) from error
        except KeyValueStoreError as error:
            raise ImportRefused(f"etcd failed, import again: {error}") from error
        except TokenLost as error:
            raise self._create_disturbed_error() from error
        return ImportResult(
            self.cluster_id, len(self._merge_topics()), partitions, size_bytes, False, self._list_left_out()
        )

    def _list_left_out(self) -> list[str]:
        return [
            f"{each.path}: {each.transactional_ids} transactional ids, without open transactions"
            for each in self._directories
            if each.transactional_ids
        ]

    # Lock

    async def _lock_cluster(self) -> WrittenAt:
        """Write the key that locks daemons out, and remove the remains of an interrupted import of the same
        directories. Raises ImportRefused if the store has other keys of this cluster.
        """
        keys = self._keys
        begin, end = keys.cluster_range
        looks, fills = (json.dumps([stage, *self._ids]).encode() for stage in ("looks", "fills"))
        absent = (CreatedAt(keys.meta, ABSENT), CreatedAt(keys.importing, ABSENT))
        await self._transact(absent, [Put(keys.importing, looks)])
        guard, value = await self._read_guard()
        if value == looks:
            if len((await self._read_range(ReadRange(begin, end, 2))).entries) > 1:
                await self._transact((guard,), [Delete(keys.importing)])
                raise self._create_not_empty_error()
            await self._transact((guard,), [Put(keys.importing, fills)])
            guard, value = await self._read_guard()
        if value != fills:
            raise self._create_not_empty_error()
        # This write changes the key's revision, so that a late attempt of it fails.
        others = [Delete(begin, keys.importing), Delete(keys.importing + b"\0", end)]
        await self._transact((guard,), [*others, Put(keys.importing, fills)])
        guard, value = await self._read_guard()
        if value != fills:
            raise self._create_disturbed_error()
        return guard

    async def _read_guard(self) -> tuple[WrittenAt, bytes]:
        """Return a comparison with the current revision of the lock key, and its value."""
        page = await self._read_range(ReadRange(self._keys.importing))
        if not page.entries:
            raise self._create_not_empty_error()
        return WrittenAt(self._keys.importing, page.entries[0].written_at), page.entries[0].value

    def _create_not_empty_error(self) -> ImportRefused:
        where = self._keys.cluster_range[0].decode()
        return ImportRefused(
            f"etcd has keys below {where} that do not belong to this import: delete them, or use another "
            "cluster.etcd.prefix"
        )

    async def _finish_import(self, guard: WrittenAt) -> None:
        meta = create_identity(self._partitions, self._directories[0].topic_id, self._ids)
        keys = self._keys
        operations: list[Put | Delete] = [Put(keys.meta, encode_identity(meta)), Delete(keys.importing)]
        await self._transact((guard, CreatedAt(keys.meta, ABSENT)), operations)
        # An unanswered attempt may have succeeded.
        if await retry_unavailable(lambda: read_identity(self._store, keys)) != meta:
            raise self._create_disturbed_error()
        self._mark_directories(meta)

    @staticmethod
    def _create_disturbed_error() -> ImportRefused:
        return ImportRefused("another process writes to this cluster: stop it and import again")

    def _mark_directories(self, meta: ClusterIdentity) -> None:
        for each in self._directories:
            mark_member(self._files, each.path, self.cluster_id, meta)

    # Coordinator logs

    async def _upload_logs(self, store: GuardedKeyValueStore) -> tuple[int, int]:
        count = size_bytes = 0
        for partition in (TopicPartition(CONSUMER_OFFSETS, number) for number in range(self._partitions)):
            copies = [log for each in self._directories if (log := each.logs.get(partition)) is not None]
            if copies:
                best = max(copies, key=lambda log: (log.leader_epochs.current, log.log_end_offset))
                sealed = await self._upload_log(store, partition, best)
                count, size_bytes = count + (sealed > 0), size_bytes + sealed
        return count, size_bytes

    async def _upload_log(
        self, store: GuardedKeyValueStore, partition: TopicPartition, log: PartitionLog
    ) -> int:
        """Upload a log and return its size in bytes."""
        log_store, manifest = PartitionLogStore(store, self._keys), Manifest()
        epoch = log.leader_epochs.current
        try:
            for segment, end_offset, greatest_epoch in _iterate_segments(log):
                if len(manifest.segments) == MAX_SEGMENTS:
                    raise ImportRefused(
                        f"{partition} is too large for a cluster on etcd: {log.size_bytes} bytes"
                    )
                epoch = max(epoch, greatest_epoch)
                manifest = await log_store.seal_segments(
                    *partition,
                    ABSENT,
                    manifest,
                    manifest.segments,
                    [segment],
                    end_offset,
                    min(log.cleaned_offset, end_offset),
                )
        except StorageError as error:
            raise ImportRefused(f"{partition} is damaged: {format_error_reason(error)}") from error
        await self._put_number(store, self._keys.epoch(*partition), epoch)
        return manifest.size

    # Topics

    def _merge_topics(self) -> dict[str, dict[str, Any]]:
        """Return topics by name, as in the catalogue's file. Raises ImportRefused if a name has two topic ids."""
        found: dict[str, dict[str, Any]] = {}
        for each in self._directories:
            for entry in each.document["topics"]:
                # Replicated records are on disks after the import, as a single copy.
                topic = {field: value for field, value in entry.items() if field != "replication_factor"}
                other = found.setdefault(topic["name"], topic)
                if other["topic_id"] != topic["topic_id"]:
                    raise ImportRefused(
                        f"{each.path}: its topic {topic['name']} differs from another topic of that name"
                    )
                if other["partitions"] < topic["partitions"]:
                    found[topic["name"]] = topic
        return found

    async def _write_catalogue(self, store: GuardedKeyValueStore) -> None:
        leaders = self._find_leaders()
        topics = self._merge_topics()

        def replicas_of(name: str, partitions: int, _: int) -> list[list[int]]:
            nodes = [each.meta.node_id for each in self._directories]
            return [
                [leaders.get(TopicPartition(name, number), nodes[number % len(nodes)])]
                for number in range(partitions)
            ]

        catalogue = CatalogueKeys(store, self._keys, replicas_of)
        catalogue.set_baseline({"topics": []})
        groups: dict[str, Any] = {}
        for each in self._directories:
            groups |= each.document.get("groups", {})
        try:
            await catalogue.write_document({"topics": list(topics.values()), "groups": groups})
        except ClusterChangeRefused as error:
            raise ImportRefused(f"{error}: import again") from error
        await self._put_number(store, self._keys.producer_ids, self._find_next_producer_id())

    async def _write_security(self, store: GuardedKeyValueStore) -> None:
        """Write the ACLs and users of all directories. For a user in several directories the first one wins."""
        state = SecurityState()
        for each in self._directories:
            found = each.security
            state = SecurityState(state.acls | found.acls, {**found.scram, **state.scram})
        puts = create_security_puts(self._keys, state)
        for first in range(0, len(puts), _MAX_PUTS):
            some = StoreTransaction((), tuple(puts[first : first + _MAX_PUTS]))
            if not (await retry_unavailable(lambda some=some: store.transact(some))).succeeded:  # type: ignore[misc]
                raise self._create_disturbed_error()

    def _find_leaders(self) -> dict[TopicPartition, int]:
        longest: dict[TopicPartition, tuple[int, int]] = {}
        for each in self._directories:
            for partition, end_offset in each.iterate_log_ends():
                if end_offset > longest.get(partition, (0, 0))[0]:
                    longest[partition] = end_offset, each.meta.node_id
        return {partition: node_id for partition, (_, node_id) in longest.items()}

    def _find_next_producer_id(self) -> int:
        """Return a producer id that no producer has. The ids that a lost store allocated are unknown."""
        reserved = max(int(each.document["producer_ids_reserved"]) for each in self._directories)
        known = max(each.last_producer_id for each in self._directories)
        if any(each.was_member for each in self._directories):
            return max(reserved, known + _UNSEEN_PRODUCER_IDS)
        return max(reserved, known + 1)

    # Store

    async def _put_number(self, store: GuardedKeyValueStore, key: bytes, number: int) -> None:
        put = StoreTransaction((), (Put(key, b"%d" % number),))
        if not (await retry_unavailable(lambda: store.transact(put))).succeeded:
            raise self._create_disturbed_error()

    async def _transact(self, compares: Any, operations: Sequence[Put | Delete]) -> Any:
        return await retry_unavailable(
            lambda: self._store.transact(StoreTransaction(tuple(compares), tuple(operations)))
        )

    async def _read_range(self, read: ReadRange) -> Any:
        return await retry_unavailable(lambda: self._store.read(read))


def _iterate_segments(log: PartitionLog) -> Iterator[tuple[UnsealedSegment, int, int]]:
    """Yield the batches of a log in segments, each with its end offset and its greatest leader epoch. The end
    offset of the last segment is the one of the last batch, where appends continue. Raises StorageError.
    """
    batches: list[bytes] = []
    first = end_offset = size = epoch = 0
    for batch in log.iterate_batches():
        header = batch.header
        if batches and size + len(batch.data) > SEGMENT_BYTES:
            yield UnsealedSegment(first, batches), end_offset, epoch
            batches, size = [], 0
        if not batches:
            first = header.base_offset
        batches.append(bytes(batch.data))
        size += len(batch.data)
        end_offset, epoch = header.next_offset, max(epoch, header.partition_leader_epoch)
    if batches:
        yield UnsealedSegment(first, batches), end_offset, epoch


def _require_same(subject: str, by_path: Mapping[str, T]) -> T:
    first, *others = set(by_path.values())
    if others:
        values = ", ".join(f"{path}: {value}" for path, value in by_path.items())
        raise ImportRefused(
            f"the directories have different {subject} ({values}): they do not belong to one cluster"
        )
    return first


def _require_different(subject: str, by_path: Mapping[str, object]) -> None:
    if len(set(by_path.values())) < len(by_path):
        values = ", ".join(f"{path}: {value}" for path, value in by_path.items())
        raise ImportRefused(f"each directory must have its own {subject} ({values})")
