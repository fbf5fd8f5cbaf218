"""The owner seals records of the engine and uploads compacted segments again: a load returns the same state."""

import pytest

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon import replicated_logs
from protocol.error_codes import ErrorCode
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually

KEYS = ClusterKeys(CLUSTER_ID)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_logs, "SEAL_RECORDS", 20)
    monkeypatch.setattr(replicated_logs, "SEAL_BYTES", 2000)
    monkeypatch.setattr(replicated_logs, "PERIOD_S", 0.05)


def engine_bytes(cluster: Daemons, name: tuple[str, int]) -> int:
    """What the engine holds of a partition."""
    ranges = KEYS.log_range(*name), KEYS.segments_range(*name)
    entries = cluster.store.map.entries.items()
    return sum(len(of.value) for key, of in entries for begin, end in ranges if begin <= key < end)


async def is_taken_over(cluster: Daemons, owner: Daemon) -> Daemon:
    """Kill the owner and return the daemon that loaded its partition."""
    await cluster.kill(owner)
    return await cluster.owner()


async def test_a_sealed_log_is_loaded_with_what_came_after() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        name = owner.server.runtime.find_partition("g").name
        for offset in range(50):
            assert await owner.commit(offset) == ErrorCode.NONE
        await eventually(lambda: KEYS.manifest(*name) in cluster.store.map.entries)
        for offset in range(50, 55):
            assert await owner.commit(offset, "g") == ErrorCode.NONE
        heir = await is_taken_over(cluster, owner)
        assert await heir.committed() == 54
        log = heir.server.runtime.find_partition("g").log
        assert log is not None
        assert sum(len(batch.records()) for batch in log.iterate_batches()) == 55


@pytest.mark.parametrize("segment_bytes", ["2000", "104857600"])
async def test_the_engine_holds_about_what_a_compacted_log_holds(
    monkeypatch: pytest.MonkeyPatch, segment_bytes: str
) -> None:
    monkeypatch.setattr(replicated_logs, "SEGMENT_BYTES", 2500)
    small = {
        "offsets.topic.segment.bytes": segment_bytes,
        "log.cleaner.backoff.ms": "20",
        "offsets.topic.num.partitions": "1",
    }
    async with daemons(None, 1, **small) as cluster:
        owner = await cluster.owner()
        partition = owner.server.runtime.find_partition("g")
        for offset in range(400):
            assert await owner.commit(offset) == ErrorCode.NONE
        written = 400 * 100
        await eventually(lambda: partition.log is not None and partition.log.size_bytes < written // 4)
        await eventually(lambda: engine_bytes(cluster, partition.name) < written // 3)
        cleaned_to = partition.log.cleaned_offset if partition.log is not None else 0
        assert cleaned_to
        await cluster.start(2, **small)
        heir = await is_taken_over(cluster, owner)
        assert await heir.committed() == 399
