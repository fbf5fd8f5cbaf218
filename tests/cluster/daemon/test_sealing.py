"""What gathers in the engine is sealed, and what compaction shrank is uploaded anew: a load gives the same."""

import pytest

from coordinator.cluster.keys import Keys
from coordinator.server.cluster import replicated_logs, sealer
from protocol.errors import ErrorCode
from tests.cluster.daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually

KEYS = Keys(CLUSTER_ID)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "SEAL_RECORDS", 20)
    monkeypatch.setattr(sealer, "SEAL_BYTES", 2000)
    monkeypatch.setattr(sealer, "PERIOD_S", 0.05)


def engine_bytes(cluster: Daemons, name: tuple[str, int]) -> int:
    """What the engine holds of a partition."""
    ranges = KEYS.whole_log(*name), KEYS.segments(*name)
    entries = cluster.store.map.entries.items()
    return sum(len(of.value) for key, of in entries for begin, end in ranges if begin <= key < end)


async def is_taken_over(cluster: Daemons, owner: Daemon) -> Daemon:
    """Kills the owner; the one that has loaded what it left."""
    await cluster.kill(owner)
    return await cluster.owner()


async def test_a_sealed_log_is_loaded_with_what_came_after() -> None:
    async with daemons(None, 2) as cluster:
        owner = await cluster.owner()
        name = owner.server.runtime.partition_of("g").name
        for offset in range(50):
            assert await owner.commit(offset) == ErrorCode.NONE
        await eventually(lambda: KEYS.manifest(*name) in cluster.store.map.entries)
        for offset in range(50, 55):
            assert await owner.commit(offset, "g") == ErrorCode.NONE
        heir = await is_taken_over(cluster, owner)
        assert await heir.committed() == 54
        log = heir.server.runtime.partition_of("g").log
        assert log is not None
        assert sum(len(batch.records()) for batch in log.batches()) == 55


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
        partition = owner.server.runtime.partition_of("g")
        for offset in range(400):
            assert await owner.commit(offset) == ErrorCode.NONE
        written = 400 * 100
        await eventually(lambda: partition.log is not None and partition.log.size_bytes < written // 4)
        await eventually(lambda: engine_bytes(cluster, partition.name) < written // 3)
        cleaned_to = partition.log.cleaned_to if partition.log is not None else 0
        assert cleaned_to
        await cluster.start(2, **small)
        heir = await is_taken_over(cluster, owner)
        assert await heir.committed() == 399
