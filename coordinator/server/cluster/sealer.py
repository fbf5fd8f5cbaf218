"""Seals what gathers in the engine: keys of appends become pieces, what compaction has shrunk is uploaded anew, and
what was deleted goes.

A partition is due when its appends since the last seal have grown beyond a bound; or when the engine holds twice of
what the log holds here, which compaction has shrunk meanwhile: then all of it is uploaded anew. So the engine holds
no more than about twice of a compacted log. A log of which retention or DeleteRecords has taken the beginning is
due, too: the engine keeps whole segments only.

Of a long log more is sealed at a time: a manifest has room for so many segments, and all of it anew would be long.

Where compaction has gone beyond what is sealed, all is uploaded anew as well: a tombstone, or the end of a
transaction, that it has taken there may be about something that is sealed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from coordinator.cluster.append import Partition
from coordinator.cluster.engine.engine import EngineError
from coordinator.cluster.store.manifest import Manifest
from coordinator.cluster.store.store import MOST_SEGMENTS, Segment, Store, TokenLost, next_generation
from coordinator.server.cluster.replicated_logs import ReplicatedLogs
from storage.errors import LogClosed, StorageError
from storage.index import MAX_RELATIVE_OFFSET
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
SEAL_BYTES: Final = 4 << 20
SEAL_RECORDS: Final = 10_000
"""No fewer than there are keys."""
PERIOD_S: Final = 2.0
_SHARE: Final = 12
"""Of what is sealed already so much more is a segment, where that is more than `SEAL_BYTES`."""
_SLICE_BATCHES: Final = 200

Owned = Callable[[], Iterable[tuple[TopicPartition, PartitionLog]]]


class Sealer:
    """All methods belong to the event loop's thread."""

    def __init__(
        self, store: Store, logs: ReplicatedLogs, owned: Owned, doubt: Callable[[TopicPartition], None]
    ) -> None:
        """In: what gives the open logs of partitions that are owned here; who takes a partition anew of which it is
        not known what was put in force."""
        self.seals = 0
        self._store = store
        self._logs = logs
        self._owned = owned
        self._doubt = doubt
        self._locks: WeakKeyDictionary[PartitionLog, asyncio.Lock] = WeakKeyDictionary()
        self._generations: WeakKeyDictionary[PartitionLog, int] = WeakKeyDictionary()
        """Of the last upload that was begun: one that the disk broke off has left pieces."""
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
            for name, log in self._owned_now():
                if log in self._logs.manifests and not log.is_closed:
                    await self._look(name, log)

    def _owned_now(self) -> list[tuple[TopicPartition, PartitionLog]]:
        try:
            return list(self._owned())
        except Exception as problem:  # noqa: BLE001 - the next round may find them
            _LOG.error("Failed to list the partitions to seal", exc_info=problem)
            return []

    async def _look(self, name: TopicPartition, log: PartitionLog) -> None:
        try:
            async with self._alone(log):
                await self._trim(name, log)
                if self._is_grown(log, self._logs.manifests[log]):
                    await self._seal(name, log)
        except TokenLost:
            _LOG.info("%s is not sealed: its token was lost", name)
        except EngineError as error:
            _LOG.warning("%s could not be sealed, and is taken anew: %s", name, error)
            self._doubt(name)
        except LogClosed:
            _LOG.info("%s is not sealed: it was let go of meanwhile", name)
        except (StorageError, OSError) as error:
            _LOG.error("%s could not be sealed: %s", name, reason_of(error))
        except Exception as problem:  # noqa: BLE001 - the other partitions are sealed all the same
            _LOG.error("%s could not be sealed, and is taken anew", name, exc_info=problem)
            self._doubt(name)

    @asynccontextmanager
    async def _alone(self, log: PartitionLog) -> AsyncIterator[None]:
        """What is in force of a log is changed by one at a time."""
        async with self._locks.setdefault(log, asyncio.Lock()):
            log.require_open()
            yield

    # Deleting

    async def trim(self, name: TopicPartition, log: PartitionLog) -> None:
        """Has the engine know where a log begins now. Raises TokenLost, EngineError, after which the partition has
        to be taken anew; StorageError where the log was closed meanwhile."""
        async with self._alone(log):
            await self._trim(name, log)

    async def _trim(self, name: TopicPartition, log: PartitionLog) -> None:
        before, log_start_offset = self._logs.manifests[log], log.log_start_offset
        if log_start_offset > before.log_start_offset:
            await self._put_in_force(name, log, before.starting_at(log_start_offset))

    async def _put_in_force(self, name: TopicPartition, log: PartitionLog, manifest: Manifest) -> None:
        before = self._logs.manifests[log]
        await self._store.put_in_force(*Partition(*name), _token(log), before, manifest)
        self._logs.manifests[log] = manifest

    # Sealing

    @staticmethod
    def _is_grown(log: PartitionLog, manifest: Manifest) -> bool:
        tail = log.durable_offset - manifest.end_offset
        if tail >= SEAL_RECORDS:
            return True
        first = max(manifest.end_offset, log.log_start_offset)
        return log.size_from(first) > _segment_bytes(manifest.size) or _is_shrunk(log, manifest)

    async def _seal(self, name: TopicPartition, log: PartitionLog) -> None:
        before = self._logs.manifests[log]
        has_holes = log.cleaned_to > before.end_offset
        is_whole = has_holes or _is_shrunk(log, before) or len(before.segments) + 1 >= MOST_SEGMENTS
        first = log.log_start_offset if is_whole else max(before.end_offset, log.log_start_offset)
        end_offset, cleaned_to = log.durable_offset, log.cleaned_to
        if (before.end_offset >= end_offset and not is_whole) or log.is_pinned:
            return
        sealed = [] if is_whole else list(before.segments)
        generation = max(next_generation(before, _token(log)), self._generations.get(log, 0) + 1)
        most_bytes = _segment_bytes(log.size_bytes if is_whole else before.size)
        log.pin()
        try:
            async for segment in _segments(log, first, end_offset, most_bytes):
                self._generations[log] = generation
                uploaded = await self._store.upload(*Partition(*name), _token(log), generation, segment)
                sealed.append(uploaded)
        finally:
            log.unpin()
        manifest = before._replace(
            segments=tuple(sealed),
            end_offset=end_offset,
            cleaned_to=cleaned_to if is_whole else before.cleaned_to,
            generation=generation,
        )
        await self._put_in_force(name, log, manifest)
        self.seals += 1
        _LOG.info("Sealed %s up to offset %d: %d bytes in etcd", name, end_offset, manifest.size)


def _token(log: PartitionLog) -> int:
    outgoing = log.durability.outgoing
    assert outgoing is not None, log.directory
    return outgoing.token


def _segment_bytes(size: int) -> int:
    """How much is sealed at a time of a log of which the engine has so many bytes."""
    return max(SEAL_BYTES, size // _SHARE)


def _is_shrunk(log: PartitionLog, manifest: Manifest) -> bool:
    return manifest.size > SEAL_BYTES and manifest.size > 2 * log.size_bytes


async def _segments(
    log: PartitionLog, first: int, end_offset: int, most_bytes: int
) -> AsyncIterator[Segment]:
    """The batches of a log that is pinned, from one offset to another, as segments that are about as large; others
    get their turn in between. Raises LogClosed, LogPoisoned, LogDamaged."""
    batches: list[bytes] = []
    base_offset, size = first, 0  # compaction may have left a hole there, and the log begins before it
    for number, batch in enumerate(log.batches(first)):
        if batch.header.next_offset > end_offset:
            break
        is_too_far = batch.header.last_offset - base_offset > MAX_RELATIVE_OFFSET
        if batches and (is_too_far or size + len(batch.data) > most_bytes):
            yield Segment(base_offset, batches)
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
        yield Segment(base_offset, batches)
