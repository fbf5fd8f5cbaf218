"""The logs in a cluster that the engine has: each is made anew from what is there.

Opening happens in the thread of the load queue, which asks the engine by way of the loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from coordinator.cluster.append import Partition
from coordinator.cluster.claims import Owned
from coordinator.cluster.engine.engine import EngineError
from coordinator.cluster.store.manifest import Damaged, Manifest
from coordinator.cluster.store.store import Store
from coordinator.engine.replication import Replication
from storage.data_directory import DataDirectory
from storage.errors import LogDamaged, StorageError
from storage.fill import fill
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.os_error import reason_of
from storage.outgoing import Outgoing
from storage.topic_partition import TopicPartition

TIMEOUT_S: Final = 10
"""For one answer of the engine, tries included."""
SEGMENT_BYTES: Final = 4 << 20
"""At the most."""
T = TypeVar("T")


def in_small_segments(config: LogConfig) -> LogConfig:
    """The same for a log that is compacted. What is in its last segment is not, and the engine has to hold all of
    it: segments as large as disks like them, one in each partition, would fill it before anything is compacted."""
    return replace(config, segment_bytes=min(config.segment_bytes, SEGMENT_BYTES))


class EngineFailed(StorageError):
    """The engine did not give a log; it is asked again."""


class ReplicatedLogs:
    """`open` may be called in any thread but the loop's, all else belongs to that."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        directory: DataDirectory,
        replication: Replication,
        owned: Callable[[Partition], Owned | None],
    ) -> None:
        """In: who knows under which token a partition is owned."""
        self.manifests: dict[PartitionLog, Manifest] = {}
        """Of each open log, what is sealed of it."""
        self._loop = loop
        self._store = store
        self._directory = directory
        self._replication = replication
        self._owned = owned

    def open(self, partition: TopicPartition, config: LogConfig, topic_id: bytes) -> PartitionLog:
        """The log of a partition that was claimed. Raises StorageError, OSError."""
        where = Partition(*partition)
        owned = self._owned(where)
        if owned is None:
            raise EngineFailed(f"{partition} is not owned any more")
        path = f"{self._directory.path}/{partition}"
        try:
            manifest = self._wait(self._store.manifest(*where))
            pieces = self._each(self._store.load(*where, manifest))
            interval_bytes = config.index_interval_bytes
            end_offset = fill(
                self._directory.files, path, pieces, owned.epoch, interval_bytes, manifest.end_offset
            )
            if manifest.log_start_offset > end_offset:
                raise Damaged(f"it begins at {manifest.log_start_offset}, and ends at {end_offset}")
        except Damaged as error:
            raise LogDamaged(path, str(error)) from error
        except (EngineError, TimeoutError) as error:
            raise EngineFailed(f"{partition} could not be read from etcd: {reason_of(error)}") from error
        self._wait(self._filled(partition, manifest.log_start_offset, min(manifest.cleaned_to, end_offset)))
        log = self._directory.open_log(partition, config, topic_id)
        try:
            if log.log_end_offset != end_offset:
                raise LogDamaged(path, f"ends at {log.log_end_offset}, and etcd has it up to {end_offset}")
            log.durability.replicated(end_offset, end_offset)
            log.durability.outgoing = Outgoing(owned.token)
            self._wait(self._opened(partition, log, manifest))
        except BaseException:
            log.close(clean=False)
            raise
        return log

    def engine_bytes(self, log: PartitionLog) -> int:
        """What the engine holds of a log; 0 where it is not open."""
        manifest = self.manifests.get(log)
        if manifest is None or log.is_closed:
            return 0
        return manifest.size + log.size_from(max(manifest.end_offset, log.log_start_offset))

    async def _filled(self, partition: TopicPartition, log_start_offset: int, cleaned_to: int) -> None:
        self._directory.is_filled_anew(partition, log_start_offset, cleaned_to)

    async def _opened(self, partition: TopicPartition, log: PartitionLog, manifest: Manifest) -> None:
        for other in [each for each in self.manifests if each.is_closed]:
            del self.manifests[other]
        self.manifests[log] = manifest
        self._replication.opened(partition, log)

    def _wait(self, asked: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(TIMEOUT_S)

    def _each(self, found: AsyncIterator[T]) -> Iterator[T]:
        async def one() -> tuple[T] | None:
            async for each in found:
                return (each,)
            return None

        while (each := self._wait(one())) is not None:
            yield each[0]
