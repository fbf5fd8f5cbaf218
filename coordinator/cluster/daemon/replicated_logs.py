"""Logs with their records in the key-value store: created from it when a partition is opened, and sealed into
it afterwards.

Opening runs in the thread of the load queue and calls the store through the event loop. Sealing turns
appends into pieces, uploads compacted logs again, and deletes trimmed records from the store. A partition is
due when its appends since the last seal exceed a bound. It is also due, with an upload of the whole log,
when the store holds twice the size of the compacted log here. The store thus holds at most about twice the
size of a compacted log. After retention or DeleteRecords removed the beginning of a log, it is due as well, for
the segments that lie wholly in the removed part: the store keeps whole segments only. A longer log is sealed
in larger segments, since the number of segments in a manifest is limited and uploading the whole log takes
long. When compaction has passed the end of the sealed part, the whole log is uploaded again: a removed
tombstone or transaction marker may concern sealed records.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from coordinator.cluster.key_value_store import KeyValueStoreError
from coordinator.cluster.partition_appends import PartitionId
from coordinator.cluster.partition_claims import PartitionToken
from coordinator.cluster.partition_log_store import (
    MAX_SEGMENTS,
    Manifest,
    ManifestDamaged,
    PartitionLogStore,
    TokenLost,
    UnsealedSegment,
    find_next_generation,
)
from coordinator.runtime.replication import Replication
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.log_copy import write_log_copy
from storage.replication_queue import ReplicationQueue
from storage.segment_index import MAX_RELATIVE_OFFSET
from storage.storage_errors import LogClosed, LogDamaged, StorageError, format_error_reason
from storage.topic_partition import TopicPartition

TIMEOUT_S: Final = 10
"""Timeout in seconds of one call of the store, including its attempts."""
SEGMENT_BYTES: Final = 4 << 20
"""Maximum segment size of a compacted log."""

_LOG: Final = logging.getLogger("Cluster")
SEAL_BYTES: Final = 4 << 20
SEAL_RECORDS: Final = 10_000
"""Number of unsealed records at which a log is due, above the usual number of keys."""
PERIOD_S: Final = 2.0
_SEGMENT_DIVISOR: Final = 12
"""The unsealed part that makes a log due is the sealed size divided by this, but at least `SEAL_BYTES`."""
_SLICE_BATCHES: Final = 200
ListOwnedLogs = Callable[[], Iterable[tuple[TopicPartition, PartitionLog]]]
T = TypeVar("T")


def limit_segment_size(config: LogConfig) -> LogConfig:
    """Return the config of a compacted log with small segments.

    The last segment is not compacted, and etcd has to hold all of it: a segment of the usual size in each
    partition would fill etcd before anything is compacted.
    """
    return replace(config, segment_bytes=min(config.segment_bytes, SEGMENT_BYTES))


class LogNotRead(StorageError):
    """The store did not return a log. The load is repeated."""


class ReplicatedLogs:
    """The open logs with their records in etcd. `open_log` may be called in any thread but the loop's. All
    other methods belong to the loop's thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: PartitionLogStore,
        directory: DataDirectory,
        replication: Replication,
        find_token: Callable[[PartitionId], PartitionToken | None],
    ) -> None:
        """Create the logs. `find_token` returns the token of an owned partition."""
        self.manifests: dict[PartitionLog, Manifest] = {}
        """The manifest of each open log."""
        self._loop = loop
        self._store = store
        self._directory = directory
        self._replication = replication
        self._find_token = find_token

    def open_log(self, partition: TopicPartition, config: LogConfig, topic_id: bytes) -> PartitionLog:
        """Open the log of a claimed partition. Raises StorageError, OSError."""
        partition_id = PartitionId(*partition)
        owned = self._find_token(partition_id)
        if owned is None:
            raise LogNotRead(f"{partition} is no longer owned")
        path = f"{self._directory.path}/{partition}"
        try:
            manifest = self._wait_for_loop(self._store.read_manifest(*partition_id))
            pieces = self._iterate_on_loop(self._store.load_log(*partition_id, manifest))
            interval_bytes = config.index_interval_bytes
            end_offset = write_log_copy(
                self._directory.files, path, pieces, owned.epoch, interval_bytes, manifest.end_offset
            )
            if manifest.log_start_offset > end_offset:
                raise ManifestDamaged(
                    f"its start offset {manifest.log_start_offset} is above its end offset {end_offset}"
                )
        except ManifestDamaged as error:
            raise LogDamaged(path, str(error)) from error
        except (KeyValueStoreError, TimeoutError) as error:
            raise LogNotRead(
                f"{partition} could not be read from etcd: {format_error_reason(error)}"
            ) from error
        self._wait_for_loop(
            self._on_filled(partition, manifest.log_start_offset, min(manifest.cleaned_to, end_offset))
        )
        log = self._directory.open_log(partition, config, topic_id)
        try:
            if log.log_end_offset != end_offset:
                raise LogDamaged(path, f"ends at {log.log_end_offset}, but etcd has it up to {end_offset}")
            log.durability.on_replicated(end_offset, end_offset)
            log.durability.replication_queue = ReplicationQueue(owned.token)
            self._wait_for_loop(self._on_opened(partition, log, manifest))
        except BaseException:
            log.close(clean=False)
            raise
        return log

    def count_engine_bytes(self, log: PartitionLog) -> int:
        """Return the bytes of a log in the store; 0 while it is not open."""
        manifest = self.manifests.get(log)
        if manifest is None or log.is_closed:
            return 0
        return manifest.size + log.count_bytes_from(max(manifest.end_offset, log.log_start_offset))

    async def _on_filled(self, partition: TopicPartition, log_start_offset: int, cleaned_to: int) -> None:
        self._directory.on_log_copied(partition, log_start_offset, cleaned_to)

    async def _on_opened(self, partition: TopicPartition, log: PartitionLog, manifest: Manifest) -> None:
        for other in [each for each in self.manifests if each.is_closed]:
            del self.manifests[other]
        self.manifests[log] = manifest
        self._replication.on_opened(partition, log)

    def _wait_for_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def _iterate_on_loop(self, found: AsyncIterator[T]) -> Iterator[T]:
        async def take_next() -> tuple[T] | None:
            async for each in found:
                return (each,)
            return None

        while (each := self._wait_for_loop(take_next())) is not None:
            yield each[0]


class LogSealer:
    """Seals the logs of owned partitions into etcd. All methods belong to the event loop's thread."""

    def __init__(
        self,
        store: PartitionLogStore,
        logs: ReplicatedLogs,
        list_owned: ListOwnedLogs,
        on_doubt: Callable[[TopicPartition], None],
    ) -> None:
        """Create a sealer.

        Args:
            store: Logs of the cluster.
            logs: The open logs.
            list_owned: Returns the open logs of owned partitions.
            on_doubt: Takes a partition back after an attempt to change its manifest with an unknown result.
        """
        self.seals = 0
        self._store = store
        self._logs = logs
        self._list_owned = list_owned
        self._on_doubt = on_doubt
        self._locks: WeakKeyDictionary[PartitionLog, asyncio.Lock] = WeakKeyDictionary()
        self._generations: WeakKeyDictionary[PartitionLog, int] = WeakKeyDictionary()
        """Generation of the last upload of a log. An upload that a disk error interrupted has left pieces."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the periodic check."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop. An upload in progress either takes effect completely or not at all."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            for name, log in self._try_list_owned():
                if log in self._logs.manifests and not log.is_closed:
                    await self._seal_if_due(name, log)

    def _try_list_owned(self) -> list[tuple[TopicPartition, PartitionLog]]:
        try:
            return list(self._list_owned())
        except Exception as problem:  # noqa: BLE001 - the next round may succeed
            _LOG.error("Failed to list the partitions to seal", exc_info=problem)
            return []

    async def _seal_if_due(self, name: TopicPartition, log: PartitionLog) -> None:
        try:
            async with self._lock_log(log):
                await self._trim_locked(name, log)
                if self._is_grown(log, self._logs.manifests[log]):
                    await self._seal_log(name, log)
        except TokenLost:
            _LOG.info("%s is not sealed: its token was lost", name)
        except KeyValueStoreError as error:
            _LOG.warning("Failed to seal %s, will load it again: %s", name, error)
            self._on_doubt(name)
        except LogClosed:
            _LOG.info("%s is not sealed: it was released meanwhile", name)
        except (StorageError, OSError) as error:
            _LOG.error("Failed to seal %s: %s", name, format_error_reason(error))
        except Exception as problem:  # noqa: BLE001 - the other partitions are still sealed
            _LOG.error("Failed to seal %s, will load it again", name, exc_info=problem)
            self._on_doubt(name)

    @asynccontextmanager
    async def _lock_log(self, log: PartitionLog) -> AsyncIterator[None]:
        """Hold the lock of a log, because manifest changes must be sequential."""
        async with self._locks.setdefault(log, asyncio.Lock()):
            log.require_open()
            yield

    # Deletion

    async def trim_log(self, name: TopicPartition, log: PartitionLog) -> None:
        """Write the start offset of a log to the store. After TokenLost and KeyValueStoreError the partition
        must be taken back. Raises StorageError if the log was closed meanwhile.
        """
        async with self._lock_log(log):
            await self._trim_locked(name, log)

    async def _trim_locked(self, name: TopicPartition, log: PartitionLog) -> None:
        before, log_start_offset = self._logs.manifests[log], log.log_start_offset
        if log_start_offset > before.log_start_offset:
            await self._activate_manifest(name, log, before.trim_to(log_start_offset))

    async def _activate_manifest(self, name: TopicPartition, log: PartitionLog, manifest: Manifest) -> None:
        before = self._logs.manifests[log]
        await self._store.activate_manifest(*PartitionId(*name), _get_ownership_token(log), before, manifest)
        self._logs.manifests[log] = manifest

    # Seals

    @staticmethod
    def _is_grown(log: PartitionLog, manifest: Manifest) -> bool:
        tail = log.durable_offset - manifest.end_offset
        if tail >= SEAL_RECORDS:
            return True
        first = max(manifest.end_offset, log.log_start_offset)
        return log.count_bytes_from(first) > _compute_segment_bytes(manifest.size) or _is_shrunk(
            log, manifest
        )

    async def _seal_log(self, name: TopicPartition, log: PartitionLog) -> None:
        before = self._logs.manifests[log]
        has_holes = log.cleaned_offset > before.end_offset
        is_whole = has_holes or _is_shrunk(log, before) or len(before.segments) + 1 >= MAX_SEGMENTS
        first = log.log_start_offset if is_whole else max(before.end_offset, log.log_start_offset)
        end_offset, cleaned_to = log.durable_offset, log.cleaned_offset
        if (before.end_offset >= end_offset and not is_whole) or log.is_pinned:
            return
        sealed = [] if is_whole else list(before.segments)
        generation = max(
            find_next_generation(before, _get_ownership_token(log)), self._generations.get(log, 0) + 1
        )
        max_bytes = _compute_segment_bytes(log.size_bytes if is_whole else before.size)
        log.pin()
        try:
            async for segment in _iterate_segments(log, first, end_offset, max_bytes):
                self._generations[log] = generation
                uploaded = await self._store.upload_segment(
                    *PartitionId(*name), _get_ownership_token(log), generation, segment
                )
                sealed.append(uploaded)
        finally:
            log.unpin()
        manifest = before._replace(
            segments=tuple(sealed),
            end_offset=end_offset,
            cleaned_to=cleaned_to if is_whole else before.cleaned_to,
            generation=generation,
        )
        await self._activate_manifest(name, log, manifest)
        self.seals += 1
        _LOG.info("Sealed %s up to offset %d: %d bytes in etcd", name, end_offset, manifest.size)


def _get_ownership_token(log: PartitionLog) -> int:
    queue = log.durability.replication_queue
    assert queue is not None, log.directory
    return queue.ownership_token


def _compute_segment_bytes(size: int) -> int:
    """Return the segment size for a log with `size` bytes in the store."""
    return max(SEAL_BYTES, size // _SEGMENT_DIVISOR)


def _is_shrunk(log: PartitionLog, manifest: Manifest) -> bool:
    return manifest.size > SEAL_BYTES and manifest.size > 2 * log.size_bytes


async def _iterate_segments(
    log: PartitionLog, first: int, end_offset: int, max_bytes: int
) -> AsyncIterator[UnsealedSegment]:
    """Yield the batches of a pinned log between two offsets as segments of similar size. Other tasks run in
    between. Raises LogClosed, LogPoisoned, LogDamaged.
    """
    batches: list[bytes] = []
    # `first` may lie in a gap from compaction. The log then begins before that gap.
    base_offset, size = first, 0
    for number, batch in enumerate(log.iterate_batches(first)):
        if batch.header.next_offset > end_offset:
            break
        is_too_far = batch.header.last_offset - base_offset > MAX_RELATIVE_OFFSET
        if batches and (is_too_far or size + len(batch.data) > max_bytes):
            yield UnsealedSegment(base_offset, batches)
            log.require_open()
            batches, size = [], 0
            base_offset = batch.header.base_offset
        base_offset = min(base_offset, batch.header.base_offset)  # the log may begin within a batch
        batches.append(bytes(batch.data))
        size += len(batch.data)
        if number % _SLICE_BATCHES == 0:
            await asyncio.sleep(0)
            log.require_open()
    if batches:
        yield UnsealedSegment(base_offset, batches)
