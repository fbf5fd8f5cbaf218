"""Seals what gathers in the engine: keys of appends become pieces, and what compaction has shrunk is uploaded anew.

A partition is due when its appends since the last seal have grown beyond a bound; or when the engine holds twice of
what the log holds here, which compaction has shrunk meanwhile: then all of it is uploaded anew. So the engine holds
no more than about twice of a compacted log.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.cluster.append import Partition
from coordinator.cluster.engine.engine import EngineError
from coordinator.cluster.store.manifest import Manifest
from coordinator.cluster.store.store import MOST_SEGMENTS, Segment, Store, TokenLost
from coordinator.engine.partition import Partition as MachinePartition
from coordinator.engine.partition import PartitionState
from coordinator.server.cluster.replicated_logs import ReplicatedLogs
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
SEAL_BYTES: Final = 4 << 20
SEAL_RECORDS: Final = 10_000
"""No fewer than there are keys."""
PERIOD_S: Final = 2.0
_SLICE_BATCHES: Final = 200


class Sealer:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        store: Store,
        logs: ReplicatedLogs,
        partitions: Callable[[], Iterable[MachinePartition[Any]]],
        doubt: Callable[[TopicPartition], None],
    ) -> None:
        """In: who takes a partition anew of which it is not known what was put in force."""
        self.seals = 0
        self._store = store
        self._logs = logs
        self._partitions = partitions
        self._doubt = doubt
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look, every now and then."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends; what was being uploaded is not put in force, or is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            for partition in list(self._partitions()):
                log = partition.log
                if (
                    partition.state is PartitionState.OWNED
                    and log is not None
                    and log in self._logs.manifests
                ):
                    await self._look(partition.name, log)

    async def _look(self, name: TopicPartition, log: PartitionLog) -> None:
        manifest = self._logs.manifests[log]
        try:
            if self._is_grown(log, manifest):
                await self._seal(name, log, manifest)
        except TokenLost:
            _LOG.info("%s is not sealed: its token was lost", name)
        except EngineError as error:
            _LOG.warning("%s could not be sealed, and is taken anew: %r", name, error)
            self._doubt(name)
        except (StorageError, OSError) as error:
            _LOG.error("%s could not be sealed: %s", name, reason_of(error))
        except Exception as problem:  # noqa: BLE001 - the other partitions are sealed all the same
            _LOG.error("%s could not be sealed, and is taken anew", name, exc_info=problem)
            self._doubt(name)

    def _is_grown(self, log: PartitionLog, manifest: Manifest) -> bool:
        tail = log.durable_offset - manifest.end_offset
        if tail >= SEAL_RECORDS:
            return True
        sealed = manifest.size
        # Holes that compaction left are in the sealed part alone: what was appended since is all there.
        return log.size_bytes - sealed > SEAL_BYTES or self._is_shrunk(log, manifest)

    @staticmethod
    def _is_shrunk(log: PartitionLog, manifest: Manifest) -> bool:
        return manifest.size > SEAL_BYTES and manifest.size > 2 * log.size_bytes

    async def _seal(self, name: TopicPartition, log: PartitionLog, manifest: Manifest) -> None:
        outgoing = log.durability.outgoing
        assert outgoing is not None, name
        is_whole = self._is_shrunk(log, manifest) or len(manifest.segments) + 1 >= MOST_SEGMENTS
        first = log.log_start_offset if is_whole else manifest.end_offset
        end_offset, cleaned_to = log.durable_offset, log.cleaned_to
        if first >= end_offset or log.is_pinned:
            return
        batches: list[bytes] = []
        log.pin()
        try:
            for number, batch in enumerate(log.batches(first)):
                if batch.header.next_offset > end_offset:
                    break
                if batch.header.base_offset >= first or is_whole:
                    batches.append(bytes(batch.data))
                if number % _SLICE_BATCHES == 0:
                    await asyncio.sleep(0)
                    log.require_open()
        finally:
            log.unpin()
        kept = () if is_whole else manifest.segments
        sealed = await self._store.seal(
            *Partition(*name),
            outgoing.token,
            manifest,
            kept,
            [Segment(first, batches)],
            end_offset,
            cleaned_to if is_whole else manifest.cleaned_to,
        )
        self._logs.manifests[log] = sealed
        self.seals += 1
        _LOG.info("Sealed %s up to offset %d: %d bytes in the engine", name, end_offset, sealed.size)
