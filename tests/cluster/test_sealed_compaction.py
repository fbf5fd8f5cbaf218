"""Compaction here and the engine there: whatever is sealed when, a load brings nothing back that was deleted."""

from collections.abc import Iterator
from dataclasses import replace
from errno import EIO
from pathlib import Path

import pytest

from coordinator import clock
from coordinator.cluster.keys import Keys
from coordinator.cluster.store import store
from coordinator.cluster.store.manifest import decode
from coordinator.server.cluster import sealer
from protocol.errors import ErrorCode
from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.record import Record
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition
from tests.cluster.daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually
from tests.cluster.records import TOPIC, batch, create, leader, partition_of, produced, read

KEYS = Keys(CLUSTER_ID)
NAME = TopicPartition(TOPIC, 0)
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
NEVER = 1 << 30


@pytest.fixture(autouse=True)
def _seals_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "SEAL_RECORDS", NEVER)
    monkeypatch.setattr(sealer, "SEAL_BYTES", NEVER)
    monkeypatch.setattr(sealer, "PERIOD_S", 0.05)


def sealed_to(cluster: Daemons) -> int:
    """Up to where the partition is sealed."""
    entry = cluster.store.map.entries.get(KEYS.manifest(*NAME))
    return 0 if entry is None else decode(entry.value).end_offset


async def seal(cluster: Daemons, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has all that there is sealed."""
    before = sealed_to(cluster)
    monkeypatch.setattr(sealer, "SEAL_RECORDS", 1)
    await eventually(lambda: sealed_to(cluster) > before)
    monkeypatch.setattr(sealer, "SEAL_RECORDS", NEVER)


async def log_in_short_segments(cluster: Daemons) -> tuple[Daemon, PartitionLog]:
    """Of the leader."""
    first = await leader(cluster)
    part = partition_of(first)
    assert part is not None
    assert part.log is not None
    part.log.config = replace(part.log.config, segment_bytes=1500)
    return first, part.log


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
        self._batches = PartitionLog.batches

        def batches(of: PartitionLog, from_offset: int | None = None) -> Iterator[StoredBatch]:
            for found in self._batches(of, from_offset):
                if (
                    of is log
                    and of.is_pinned
                    and self.is_bad
                    and found.header.next_offset == of.log_end_offset
                ):
                    self.refused += 1
                    raise OSError(EIO, "Input/output error")
                yield found

        monkeypatch.setattr(PartitionLog, "batches", batches)


def offsets(log: PartitionLog) -> list[int]:
    """Of all records that are there."""
    return [record.offset for found in log.batches() for record in found.records()]


async def test_a_key_that_was_deleted_stays_so_when_its_tombstone_goes_before_it_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons(tmp_path, 2, **{"log.cleaner.backoff.ms": "20"}) as cluster:
        assert await create(cluster.by_id[1], factor=2, **COMPACTED) == ErrorCode.NONE
        first, log = await log_in_short_segments(cluster)
        await put(first, b"gone", b"secret")
        await put_others(first, 5)
        await seal(cluster, monkeypatch)
        tombstone_at = log.log_end_offset
        await remove(first, b"gone")
        # Two passes: the first one gives the tombstone its time, the second takes it.
        for _ in range(2):
            cleaned_to = log.cleaned_to
            await put_others(first, 60)
            await eventually(lambda cleaned_to=cleaned_to: log.cleaned_to > cleaned_to)  # type: ignore[misc]
        await eventually(lambda: tombstone_at not in offsets(log))
        await seal(cluster, monkeypatch)
        await cluster.kill(first)
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert b"secret" not in found
        assert found[-1] == b"59"


async def test_an_upload_that_the_disk_broke_off_leaves_nothing_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PIECE_BYTES", 200)
    async with daemons(tmp_path, 2, **{"log.cleaner.backoff.ms": "20"}) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first, log = await log_in_short_segments(cluster)
        await put_others(first, 100)
        disk = BadDisk(monkeypatch, log)
        monkeypatch.setattr(sealer, "SEAL_BYTES", 6000)
        await eventually(lambda: disk.refused > 0)
        monkeypatch.setattr(sealer, "SEAL_BYTES", NEVER)
        written = log.size_bytes
        log.config = replace(log.config, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
        await eventually(lambda: log.size_bytes < written // 2)
        disk.is_bad = False
        await seal(cluster, monkeypatch)
        await cluster.kill(first)
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert found[-1] == b"99"
