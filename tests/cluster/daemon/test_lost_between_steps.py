"""Requests that take several steps, between two of which a partition of a topic with replicas is lost."""

from collections.abc import Callable

import pytest

from coordinator.core import time_budget
from coordinator.topics import produce
from coordinator.topics.cluster_partition import ClusterPartition
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import Daemon, daemons
from tests.cluster.daemon.records import batch, create, leader, partition_of, read, write

LOST, KEPT = "lost", "kept"


@pytest.fixture(autouse=True)
def _with_a_turn_at_each_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "MAX_PARTITIONS_AT_ONCE", 0)
    monkeypatch.setattr(produce, "PARTITIONS_PER_STEP", 1)
    monkeypatch.setattr(time_budget, "SLICE_NS", -1)


def lose_after(
    monkeypatch: pytest.MonkeyPatch, daemon: Daemon, method: Callable[..., object]
) -> PartitionLog:
    """Make groupd read a partition again after the next call of its log. Return the log."""
    part = partition_of(daemon, name=LOST)
    assert isinstance(part, ClusterPartition)
    lost = part.log
    assert lost is not None
    cluster, loop = daemon.cluster, daemon.server.loop
    assert cluster is not None

    def done(log: PartitionLog, *args: object, **kwargs: object) -> object:
        result = method(log, *args, **kwargs)
        if log is lost and not log.is_closed:
            loop.call_soon(cluster.owned_partitions.doubt_partition, TopicPartition(LOST, 0))
        return result

    monkeypatch.setattr(PartitionLog, method.__name__, done)
    return lost


async def test_what_was_appended_to_it_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons(None, 2) as cluster:
        for name in (LOST, KEPT):
            assert await create(cluster.by_id[1], name=name, assignments=[[1, 2]]) == ErrorCode.NONE
        first = await leader(cluster, name=LOST)
        assert await leader(cluster, name=KEPT) is first
        lose_after(monkeypatch, first, PartitionLog.append)
        topics = [
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch(b"a"))])
            for name in (LOST, KEPT)
        ]
        answer = await first.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)
        lost, kept = (each.partition_responses[0] for each in answer.responses)
        assert (lost.error_code, lost.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert (kept.error_code, kept.base_offset) == (ErrorCode.NONE, 0)
        assert await read(await leader(cluster, name=LOST), name=LOST) == []
        assert await read(first, name=KEPT) == [b"a"]


async def test_it_does_not_begin_elsewhere_where_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons(None, 2) as cluster:
        for name in (LOST, KEPT):
            assert await create(cluster.by_id[1], name=name, assignments=[[1, 2]]) == ErrorCode.NONE
            await write(await leader(cluster, name=name), b"a", b"b", name=name)
        first = await leader(cluster, name=LOST)
        lose_after(monkeypatch, first, PartitionLog.delete_records_before)
        topics = [
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            for name in (LOST, KEPT)
        ]
        answer = await first.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
        lost, kept = (topic.partitions[0] for topic in answer.topics)
        assert (lost.error_code != ErrorCode.NONE, lost.low_watermark) == (True, -1)
        assert (kept.error_code, kept.low_watermark) == (ErrorCode.NONE, 1)
        assert await read(await leader(cluster, name=LOST), name=LOST) == [b"a", b"b"]
