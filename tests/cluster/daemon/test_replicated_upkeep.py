"""What becomes of topics with replicas over time: sealed, compacted, shortened, moved, reassigned."""

import asyncio
import threading
from errno import EMFILE
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon import replicated_bytes_limit, replicated_logs
from coordinator.cluster.daemon.replicated_logs import ReplicatedLogs
from coordinator.cluster.partition_appends import PartitionId
from coordinator.cluster.partition_log_store import decode_manifest
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from storage.log import PartitionLog
from storage.storage_errors import LogPoisoned
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import CLUSTER_ID, Daemon, Daemons, daemons, eventually
from tests.cluster.daemon.records import TOPIC, batch, create, leader, partition_of, produced, read, write

KEYS = ClusterKeys(CLUSTER_ID)
NAME = TopicPartition(TOPIC, 0)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_logs, "SEAL_RECORDS", 20)
    monkeypatch.setattr(replicated_logs, "SEAL_BYTES", 2000)
    monkeypatch.setattr(replicated_logs, "PERIOD_S", 0.05)
    monkeypatch.setattr(replicated_bytes_limit, "PERIOD_S", 0.05)


def engine_bytes(cluster: Daemons) -> int:
    """What the engine holds of the partition."""
    ranges = KEYS.log_range(*NAME), KEYS.segments_range(*NAME)
    entries = cluster.store.map.entries.items()
    return sum(len(of.value) for key, of in entries for begin, end in ranges if begin <= key < end)


def sealed_to(cluster: Daemons) -> int:
    """Up to where the partition is sealed."""
    entry = cluster.store.map.entries.get(KEYS.manifest(*NAME))
    return 0 if entry is None else decode_manifest(entry.value).end_offset


async def with_short_segments(cluster: Daemons) -> Daemon:
    """Return the leader, with log segments smaller than a topic config may set."""
    first = await leader(cluster)
    part = partition_of(first)
    assert part is not None
    assert part.log is not None
    part.log.config = replace(part.log.config, segment_bytes=1500)
    return first


async def test_a_sealed_log_is_led_on_with_all_of_it() -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        values = [b"%d" % number * 20 for number in range(120)]
        first = await leader(cluster)
        await write(first, *values[:60])
        await eventually(lambda: sealed_to(cluster) >= 40)
        await write(first, *values[60:])
        await eventually(lambda: sealed_to(cluster) >= 100)
        await cluster.kill(first)
        assert await read(await leader(cluster)) == values


async def test_retention_takes_from_the_engine_what_it_takes_here() -> None:
    sweeps = {"log.retention.check.interval.ms": "50"}
    async with daemons(None, 2, **sweeps) as cluster:
        assert await create(cluster.by_id[1], factor=2, retention_bytes="3000") == ErrorCode.NONE
        first = await with_short_segments(cluster)
        values = [b"%d" % number * 30 for number in range(200)]
        await write(first, *values)
        part = partition_of(first)
        assert part is not None
        await eventually(lambda: part.log is not None and part.log.size_bytes < 6000)
        log = part.log
        assert log is not None
        start = log.log_start_offset
        assert 0 < start < 200
        await eventually(lambda: engine_bytes(cluster) < 3 * log.size_bytes)
        manifest = KEYS.manifest(*NAME)
        await eventually(
            lambda: (
                decode_manifest(cluster.store.map.entries[manifest].value).log_start_offset
                == log.log_start_offset
            )
        )
        start = log.log_start_offset
        await cluster.kill(first)
        second = await leader(cluster)
        own = partition_of(second)
        assert own is not None
        assert own.log is not None
        # Whose own retention may have gone on already.
        first_offset = own.log.log_start_offset
        assert first_offset >= start
        assert await read(second, start - 1) == ErrorCode.OFFSET_OUT_OF_RANGE
        found = await read(second, own.log.log_start_offset)
        assert isinstance(found, list)
        assert found
        assert found == values[200 - len(found) :]


async def test_a_compacted_topic_is_compacted_in_the_engine() -> None:
    small = {"log.cleaner.backoff.ms": "20"}
    async with daemons(None, 2, **small) as cluster:
        asked = create(cluster.by_id[1], factor=2, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        assert await asked == ErrorCode.NONE
        first = await with_short_segments(cluster)
        for number in range(300):
            answer = await produced(first, batch(b"%d" % number, key=b"key%d" % (number % 3)))
            assert answer.error_code == ErrorCode.NONE
        written = 300 * 75
        await eventually(lambda: engine_bytes(cluster) < written // 2)
        await cluster.kill(first)
        found = await read(await leader(cluster))
        assert isinstance(found, list)
        assert {b"297", b"298", b"299"} <= set(found)
        assert len(found) < 150


async def test_room_is_shared_by_all_brokers() -> None:
    async with daemons(None, 2, **{"cluster.topics.max.bytes": "100000"}) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2], [2, 1]]) == ErrorCode.NONE
        one, two = cluster.by_id.values()
        assert await leader(cluster, 0) is one
        assert await leader(cluster, 1) is two
        for _ in range(3):
            assert (await produced(one, batch(b"x" * 30_000))).error_code == ErrorCode.NONE

        total = two.cluster.replicated_bytes
        await eventually(lambda: total.total > 90_000)
        refused = await produced(two, batch(b"x" * 30_000), 1)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.kill(one)
        # Who leads it now counts it.
        await eventually(lambda: total.total > 90_000)
        assert (await produced(two, batch(b"x" * 30_000), 1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_room_is_counted_on_after_it_could_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons(None, 2) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster)
        size_from = PartitionLog.count_bytes_from
        refused: list[int] = []

        def fails_once(log: PartitionLog, offset: int) -> int:
            if not refused and log.directory.endswith(str(NAME)):
                refused.append(offset)
                raise OSError(EMFILE, "Too many open files")
            return size_from(log, offset)

        monkeypatch.setattr(replicated_logs.LogSealer, "_is_grown", staticmethod(lambda *_: False))
        monkeypatch.setattr(PartitionLog, "count_bytes_from", fails_once)
        await eventually(lambda: bool(refused))
        await write(first, *[b"x" * 100] * 5)
        other = cluster.by_id[2].cluster
        assert other is not None
        await eventually(lambda: other.replicated_bytes.total > 500)


async def reassign(daemon: Daemon, replicas: list[int]) -> int:
    part = ReassignablePartition(partition_index=0, replicas=replicas)
    wanted = ReassignableTopic(name=TOPIC, partitions=[part])
    answer = await daemon.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[wanted]), 1)
    code: int = answer.responses[0].partitions[0].error_code
    return code


async def test_a_partition_is_given_other_replicas() -> None:
    async with daemons(None, 3) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        await write(await leader(cluster), b"a")
        await eventually(lambda: partition_of(cluster.by_id[3]) is not None)
        assert await reassign(cluster.by_id[3], [3, 2]) == ErrorCode.NONE
        await eventually(lambda: _leads(cluster.by_id[3]))
        assert await read(cluster.by_id[3]) == [b"a"]
        for daemon in cluster.by_id.values():
            replicas = daemon.server.membership.ownership.find_replicas
            await eventually(lambda replicas=replicas: list(replicas(NAME)) == [3, 2])  # type: ignore[misc]
        assert await reassign(cluster.by_id[1], [4]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(cluster.by_id[1], [2]) == ErrorCode.NONE
        await eventually(lambda: _leads(cluster.by_id[2]))
        assert await read(cluster.by_id[2]) == [b"a"]


def _leads(daemon: Daemon) -> bool:
    return daemon.server.membership.ownership.owns(daemon.node_id, NAME)


async def test_a_leader_is_moved_to_a_replica_and_elected_back() -> None:
    async with daemons(None, 3) as cluster:
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a")
        with pytest.raises(Exception, match="not a replica"):
            first.server.membership.move_partition(NAME, 3)
        assert first.server.membership.move_partition(NAME, 2)
        await eventually(lambda: _leads(cluster.by_id[2]))
        await write(cluster.by_id[2], b"b")
        wanted = [TopicPartitions(topic=TOPIC, partitions=[0])]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000)
        owner = cluster.by_id[3].server.membership.ownership.find_owner
        await eventually(lambda: owner(NAME) == 2)
        answer = await cluster.by_id[3].ask(request, 2)
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        await eventually(lambda: _leads(first))
        assert await read(first) == [b"a", b"b"]


class Slow:
    """Delays the first opened logs until the test releases them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        self._open = ReplicatedLogs.open_log
        slow = self

        def opened(logs: ReplicatedLogs, name: TopicPartition, *others: Any) -> PartitionLog:
            log = slow._open(logs, name, *others)
            if name.topic == TOPIC:
                slow.began.release()
                assert slow.may_end.wait(60)
            return log

        monkeypatch.setattr(ReplicatedLogs, "open_log", opened)

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, True, 60)


async def test_a_topic_that_is_deleted_while_it_is_read_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons(tmp_path, 2) as cluster:
        slow = Slow(monkeypatch)
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        await slow.until_begun()
        request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5000)
        gone = await cluster.by_id[1].ask(request, 3)
        assert gone.responses[0].error_code == ErrorCode.NONE
        slow.may_end.set()
        await eventually(lambda: not list(tmp_path.glob(f"*/{TOPIC}-*")))


async def test_a_partition_that_is_lost_while_it_is_read_is_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with daemons(None, 2) as cluster:
        slow = Slow(monkeypatch)
        assert await create(cluster.by_id[1], assignments=[[1, 2]]) == ErrorCode.NONE
        await slow.until_begun()
        first = cluster.by_id[1]
        for _ in range(3):
            first.cluster.owned_partitions.doubt_partition(NAME)
        slow.may_end.set()
        assert await leader(cluster) is first
        await write(first, b"a")
        assert await read(first) == [b"a"]
        part = partition_of(first)
        assert part is not None
        assert part.log is not None
        assert part.log.durability.replication_queue is not None
        member = first.cluster.member
        assert member is not None
        assert part.log.durability.replication_queue.ownership_token == member.owned[PartitionId(*NAME)].token


async def test_a_disk_that_refuses_costs_no_record() -> None:
    async with daemons(None, 1) as cluster:
        await cluster.start(2)
        assert await create(cluster.by_id[1], factor=2) == ErrorCode.NONE
        first = await leader(cluster)
        await write(first, b"a")
        part = partition_of(first)
        assert part is not None
        broken = part.log
        assert broken is not None
        broken.poison(LogPoisoned(broken.directory, "the disk is broken"))
        answer = await produced(first, batch(b"refused"))
        assert answer.error_code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        again = await leader(cluster)
        await write(again, b"b")
        assert await read(again) == [b"a", b"b"]
