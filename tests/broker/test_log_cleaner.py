import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from coordinator.broker import log_cleaner
from coordinator.broker.server import Server
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from storage.batch import encode_batch
from storage.compaction.compaction import Compaction, LogToClean
from storage.compaction.compaction_filter import CompactionTerms
from storage.log import PartitionLog
from storage.offset_checkpoint import RECOVERY_POINTS, CheckpointDraft
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import commit, committed

OFFSETS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "2000",
    "log.cleaner.backoff.ms": "10",
}


GROUPS = ("a", "b", "c", "d", "e", "f")
SEVERAL_SEGMENTS = 30
"""Records of `produce` that fill more than one segment."""


async def ended(server: Server, target: int) -> None:
    """Waits until the cleaner has ended so many passes in all."""
    while server.cleaner.passes < target:
        await one_turn()


async def one_turn() -> None:
    await asyncio.sleep(0.002)


async def passes(server: Server, count: int = 1, work: Callable[[], Awaitable[object]] | None = None) -> None:
    """Wait until the cleaner has ended some more passes; `work` continues meanwhile."""
    target = server.cleaner.passes + count
    while server.cleaner.passes < target:
        assert work is not None
        await work()


async def test_commits_are_compacted_while_they_come_and_nothing_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path, OFFSETS) as server, Client(server) as client:
        log = server.runtime.partitions[0].log
        assert log is not None
        offset = 0

        async def more() -> None:
            nonlocal offset
            offset += 1
            await client.call(commit(offset), 2)

        await passes(server, 3, more)
        assert server.cleaner.bytes_removed > 0
        # How much has come since the last pass is a matter of time.
        while log.size_bytes > log.log_end_offset * 60:
            await passes(server, 1, more)
        assert await committed(client) == offset
    async with serving(tmp_path, OFFSETS) as server, Client(server) as client:
        assert await committed(client) == offset
        assert server.directory.find_cleaned_offset(TopicPartition("__consumer_offsets", 0)) > 0


async def test_the_state_of_transactions_is_compacted_though_it_comes_into_being_later() -> None:
    small = {"transaction.state.log.num.partitions": "1", "transaction.state.log.segment.bytes": "2000"}
    async with serving(None, {**OFFSETS, **small}) as server, Client(server) as client:
        await client.call(FindCoordinatorRequest(key="transfers", key_type=1), 3)

        async def again() -> None:
            asked = InitProducerIdRequest(transactional_id="transfers", transaction_timeout_ms=60_000)
            await client.call(asked, 3)

        await asyncio.wait_for(passes(server, 1, again), 60)
        assert server.directory.find_cleaned_offset(TopicPartition("__transaction_state", 0)) > 0


@pytest.mark.parametrize(("name", "value"), [("offsets.history", "keep"), ("log.cleaner.enable", "false")])
async def test_the_history_of_commits_can_be_kept(name: str, value: str) -> None:
    topic = CreateTopicsRequest(topics=[compacted("table")], timeout_ms=1000)
    async with serving(None, {**OFFSETS, name: value}) as server, Client(server) as client:
        for offset in range(100):
            await client.call(commit(offset), 2)
        await client.call(topic, 7)
        if value == "keep":
            await passes(server, 1, lambda: client.call(produce("table", b"key", b"value"), 8))
        log = server.runtime.partitions[0].log
        assert log is not None
        assert len(log.segments) > 2
        assert sum(len(batch.records()) for batch in log.iterate_batches()) == log.log_end_offset


async def test_a_log_that_defies_compaction_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(log: PartitionLog, todo: LogToClean, terms: CompactionTerms) -> Compaction:
        if "__consumer_offsets" in log.directory:
            raise ZeroDivisionError
        return Compaction(log, todo, terms)

    topic = CreateTopicsRequest(topics=[compacted("table")], timeout_ms=1000)
    monkeypatch.setattr(log_cleaner, "Compaction", failing)
    async with serving(None, OFFSETS) as server, Client(server) as client:
        for offset in range(100):
            await client.call(commit(offset), 2)
        await client.call(topic, 7)
        await passes(server, 1, lambda: client.call(produce("table", b"key", b"value"), 8))
        assert await committed(client) == 99
    assert [record.exc_info for record in caplog.records if "__consumer_offsets-0" in record.getMessage()]


async def test_a_transaction_without_an_end_is_not_compacted_over_and_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[tuple[PartitionLog, int]] = []

    def counted(log: PartitionLog, todo: LogToClean, terms: CompactionTerms) -> Compaction:
        tried.append((log, todo.end_offset))
        return Compaction(log, todo, terms)

    topic = CreateTopicsRequest(topics=[compacted("table")], timeout_ms=1000)
    monkeypatch.setattr(log_cleaner, "Compaction", counted)
    async with serving(None, OFFSETS) as server, Client(server) as client:
        stuck = server.runtime.partitions[0].log
        assert stuck is not None
        hanging = Record(-1, 0, b"\0\x0bshare", b"\0\0state")
        stuck.append(encode_batch([hanging], producer_id=7, base_sequence=0, is_transactional=True))
        for offset in range(50):
            await client.call(commit(offset), 2)
        while stuck not in [log for log, _ in tried]:
            await client.call(commit(1), 2)
        await client.call(topic, 7)
        for _ in range(5):
            # Not more than a pass takes: on a busy machine the log would grow faster than it is compacted.
            target = server.cleaner.passes + 1
            for _ in range(SEVERAL_SEGMENTS):
                await client.call(produce("table", b"key", b"value"), 8)
            await ended(server, target)
        assert len(set(tried)) == len(tried)


async def test_a_stop_waits_for_one_pass_and_not_for_every_log(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping: list[asyncio.Task[None]] = []
    begun: list[PartitionLog] = []

    def stopped_by_the_first(log: PartitionLog, todo: LogToClean, terms: CompactionTerms) -> Compaction:
        if not stopping:
            stopping.append(asyncio.ensure_future(server.cleaner.stop()))
        begun.append(log)
        return Compaction(log, todo, terms)

    monkeypatch.setattr(log_cleaner, "Compaction", stopped_by_the_first)
    # A pass that is over before it has to let others in does not look whether it is to stop.
    monkeypatch.setattr(log_cleaner, "BACKGROUND_SLICE_NS", 10**12)
    several = {**OFFSETS, "offsets.topic.num.partitions": "4", "log.cleaner.enable": "false"}
    async with serving(None, several) as server, Client(server) as client:
        for group in GROUPS:
            for offset in range(100):
                await client.call(commit(offset, group=group), 2)
        assert sum(len(part.log.segments) > 2 for part in server.runtime.partitions if part.log) > 1
        server.cleaner.start()
        while not stopping:
            await one_turn()
        await stopping[0]
        assert len(begun) == 1


async def test_a_log_whose_checkpoint_is_overtaken_keeps_no_other_from_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_hand = {"log.cleaner.enable": "false", "log.flush.offset.checkpoint.interval.ms": "0"}
    properties = {**OFFSETS, **by_hand, "offsets.topic.num.partitions": "2"}
    async with serving(None, properties) as server, Client(server) as client:
        overtaken, other = server.runtime.partitions
        for partition in (overtaken, other):
            group = next(name for name in GROUPS if server.runtime.find_partition(name) is partition)
            for offset in range(100):
                await client.call(commit(offset, group=group), 2)
        logs = {part.name: part.log for part in (overtaken, other) if part.log is not None}
        while any(log.synced_offset < log.segments[-1].base_offset for log in logs.values()):
            server.flusher.settle_logs(logs.values())
            await one_turn()
        server.directory.write_checkpoints({other.name: logs[other.name]})
        write, attempts = server.checkpoints.write_checkpoint, 0

        async def write_unless_overtaken(draft: CheckpointDraft) -> None:
            nonlocal attempts
            if not draft.path.endswith(RECOVERY_POINTS):
                await write(draft)
                return
            attempts += 1  # a later draft is on its way to the disk, and this one is not written
            await one_turn()

        monkeypatch.setattr(server.checkpoints, "write_checkpoint", write_unless_overtaken)
        server.cleaner.start()
        while server.directory.find_cleaned_offset(other.name) == 0:
            assert attempts < 100
            await one_turn()
        assert attempts > 0
        assert server.directory.find_cleaned_offset(overtaken.name) == 0


def compacted(name: str) -> CreatableTopic:
    """A topic that is compacted as soon as possible, its segments tiny."""
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    return CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def produce(topic: str, key: bytes, value: bytes | None) -> ProduceRequest:
    batch = encode_batch([Record(-1, 1000, key, value)])
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


async def test_a_compacted_topic_keeps_the_latest_value_of_each_key() -> None:
    properties = {"log.cleaner.backoff.ms": "10"}
    async with serving(None, properties) as server, Client(server) as client:
        created: CreateTopicsResponse = await client.call(
            CreateTopicsRequest(topics=[compacted("table")], timeout_ms=1000), 7
        )
        assert created.topics[0].error_code == 0, created
        await client.call(produce("table", b"removed", b"value"), 8)
        await client.call(produce("table", b"removed", None), 8)
        latest: dict[bytes | None, bytes | None] = {}
        number = 0

        async def more() -> None:
            nonlocal number
            key, value = b"key-%d" % (number % 7), b"value-%d" % number
            answer: ProduceResponse = await client.call(produce("table", key, value), 8)
            assert answer.responses[0].partition_responses[0].error_code == 0
            latest[key] = value
            number += 1

        await passes(server, 4, more)
        log = server.logs()[TopicPartition("table", 0)]
        found = {record.key: record.value for batch in log.iterate_batches() for record in batch.records()}
        assert found == latest
        assert sum(len(batch.records()) for batch in log.iterate_batches()) < number
