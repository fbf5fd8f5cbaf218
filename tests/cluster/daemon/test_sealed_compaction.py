"""Compaction of a log and its sealed segments in the engine: in every order of both, a load restores no deleted
record."""

from collections.abc import Iterator
from errno import EIO

import pytest
from msgspec.structs import replace

from coordinator.cluster import partition_log_store
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon import replicated_logs
from coordinator.cluster.key_value_store import Put, StoreTransaction
from coordinator.cluster.partition_log_store import Manifest, SealedSegment, decode_manifest, encode_manifest
from coordinator.core import clock
from protocol.error_codes import ErrorCode
from storage.batch import assign_offsets, encode_batch
from storage.log import PartitionLog
from storage.record import Record
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually
from tests.cluster.daemon.records import TOPIC, batch, create, leader, partition_of, produced, read

KEYS = ClusterKeys(CLUSTER_ID)
NAME = TopicPartition(TOPIC, 0)
NEVER = 1 << 30


@pytest.fixture(autouse=True)
def _seals_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_logs, "SEAL_RECORDS", NEVER)
    monkeypatch.setattr(replicated_logs, "SEAL_BYTES", NEVER)
    monkeypatch.setattr(replicated_logs, "PERIOD_S", 0.05)


def sealed_to(cluster: Daemons) -> int:
    """Up to where the partition is sealed."""
    entry = cluster.store.map.entries.get(KEYS.manifest(*NAME))
    return 0 if entry is None else decode_manifest(entry.value).end_offset


async def seal(cluster: Daemons, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seal all records."""
    before = sealed_to(cluster)
    monkeypatch.setattr(replicated_logs, "SEAL_RECORDS", 1)
    await eventually(lambda: sealed_to(cluster) > before)
    monkeypatch.setattr(replicated_logs, "SEAL_RECORDS", NEVER)


def log_of(daemon: Daemon) -> PartitionLog | None:
    part = partition_of(daemon)
    return None if part is None else part.log


async def log_in_short_segments(cluster: Daemons) -> tuple[Daemon, PartitionLog]:
    """Of the leader."""
    first = await leader(cluster)
    log = log_of(first)
    assert log is not None
    log.config = replace(log.config, segment_bytes=1500)
    return first, log


async def put(daemon: Daemon, key: bytes, value: bytes) -> None:
    answer = await produced(daemon, batch(value, key=key))
    assert answer.error_code == ErrorCode.NONE, answer


async def put_others(daemon: Daemon, count: int) -> None:
    """Records of one other key, of which all but the last may go."""
    for number in range(count):
        await put(daemon, b"other", b"%d" % number)


async def remove(daemon: Daemon, key: bytes) -> None:
    tombstone = encode_batch([Record(-1, clock.wall_ms(), key, None)])
    answer = await produced(daemon, tombstone)
    assert answer.error_code == ErrorCode.NONE, answer


class BadDisk:
    """The end of a log cannot be read when it is sealed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: PartitionLog) -> None:
        self.is_bad = True
        self.refused = 0
        self._iterate_batches = PartitionLog.iterate_batches

        def iterate_batches(of: PartitionLog, from_offset: int | None = None) -> Iterator[StoredBatch]:
            for found in self._iterate_batches(of, from_offset):
                if (
                    of is log
                    and of.is_pinned
                    and self.is_bad
                    and found.header.next_offset == of.log_end_offset
                ):
                    self.refused += 1
                    raise OSError(EIO, "Input/output error")
                yield found

        monkeypatch.setattr(PartitionLog, "iterate_batches", iterate_batches)


def offsets(log: PartitionLog) -> list[int]:
    """Of all records that are there."""
    return [record.offset for found in log.iterate_batches() for record in found.records()]


async def test_a_key_that_was_deleted_stays_so_when_its_tombstone_goes_before_it_is_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2, **{"log.cleaner.backoff.ms": "20"}) as cluster:
        asked = create(
            cluster.by_id[1],
            factor=2,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
        )
        assert await asked == ErrorCode.NONE
        first, log = await log_in_short_segments(cluster)
        await put(first, b"gone", b"secret")
        await put_others(first, 5)
        await seal(cluster, monkeypatch)
        tombstone_at = log.log_end_offset
        await remove(first, b"gone")
        # Two passes: the first one gives the tombstone its time, the second takes it.
        for _ in range(2):
            cleaned_to = log.cleaned_offset
            await put_others(first, 60)
            await eventually(lambda cleaned_to=cleaned_to: log.cleaned_offset > cleaned_to)  # type: ignore[misc]
        await eventually(lambda: tombstone_at not in offsets(log))
        await seal(cluster, monkeypatch)
        await cluster.kill(first)
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert b"secret" not in found
        assert found[-1] == b"59"


async def test_an_upload_that_the_disk_broke_off_leaves_nothing_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_log_store, "PIECE_BYTES", 200)
    async with daemons(None, 2, **{"log.cleaner.backoff.ms": "20"}) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first, log = await log_in_short_segments(cluster)
        await put_others(first, 100)
        disk = BadDisk(monkeypatch, log)
        monkeypatch.setattr(replicated_logs, "SEAL_BYTES", 6000)
        await eventually(lambda: disk.refused > 0)
        monkeypatch.setattr(replicated_logs, "SEAL_BYTES", NEVER)
        written = log.size_bytes
        log.config = replace(log.config, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
        await eventually(lambda: log.size_bytes < written // 2)
        disk.is_bad = False
        await seal(cluster, monkeypatch)
        await cluster.kill(first)
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert found[-1] == b"99"


async def test_a_log_of_very_many_offsets_is_sealed_in_segments_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicated_logs, "MAX_SEGMENTS", 2)  # all is sealed anew
    far = 3 << 30
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first, old = await log_in_short_segments(cluster)
        found = {0: b"near", far: b"far"}
        pieces = {base: assign_offsets(batch(value), base, 0) for base, value in found.items()}
        sealed = tuple(SealedSegment(base, 1, 1, len(piece)) for base, piece in pieces.items())
        puts = [Put(KEYS.piece(*NAME, base, 1, 0), piece) for base, piece in pieces.items()]
        puts.append(Put(KEYS.manifest(*NAME), encode_manifest(Manifest(sealed, far + 1, generation=1))))
        cluster.store.do(lambda map_: map_.transact(StoreTransaction((), tuple(puts))))
        first.cluster.owned_partitions.doubt_partition(NAME)
        await eventually(lambda: log_of(first) not in (None, old))
        await put(first, b"key", b"last")
        await seal(cluster, monkeypatch)
        await cluster.kill(first)
        assert await read(await leader(cluster)) == [b"near", b"far", b"last"]
