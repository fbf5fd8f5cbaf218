"""Lag beside a running daemon: log ends and commits of one instant, however long reading takes.

A consumer that stays two records behind makes the lag of every instant known: each round takes a record and then
commits, so the group is 2 records behind, or 3 between the two.
"""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from pipeline.decode.rows import COMMIT
from pipeline.decode.vectorised import Wanted
from pipeline.log_ends.cluster import ends_of_cluster, parse_address
from pipeline.log_ends.connection import Connection
from pipeline.log_ends.directory import ends_in_directory
from pipeline.log_ends.log_end import Period
from pipeline.log_ends.measure import snapshot_taker
from pipeline.log_ends.snapshot import Snapshot
from pipeline.log_files import LogFiles
from pipeline.reading import Task, ranges, read_task
from pipeline.segments import find_partitions
from pipeline.survey import survey
from protocol.apis import ApiKey
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from storage.batch import encode_batch
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.interop.daemon import Daemon

T0: Final = TopicPartition("t", 0)
GROUP: Final = "g"
BEHIND: Final = 2
ROUNDS_A_SECOND: Final = 1000
HANGING_S: Final = 120


class SteadyConsumer:
    """A thread that produces a record and commits the offset BEHIND records before the end, again and again."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = Connection(*parse_address(bootstrap))
        self._ended = threading.Event()
        self._rounds = threading.Condition()
        self._end = 0
        topic = CreatableTopic(
            name=T0.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        self._connection.ask(
            ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
        )
        for _ in range(BEHIND):
            self._produce()
        self._commit()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        began_s, rounds = time.monotonic(), 0
        while not self._ended.is_set():
            self._produce()
            self._commit()
            rounds += 1
            self._ended.wait(began_s + rounds / ROUNDS_A_SECOND - time.monotonic())

    def _produce(self) -> None:
        now_ms = int(time.time() * 1000)
        batch = encode_batch([Record(0, now_ms, b"k", b"v")])
        data = TopicProduceData(
            name=T0.topic, partition_data=[PartitionProduceData(index=T0.partition, records=batch)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data])
        answer = self._connection.ask(ApiKey.PRODUCE, 7, request, ProduceResponse)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == 0
        with self._rounds:
            self._end = partition.base_offset + 1
            self._rounds.notify_all()

    def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=T0.partition, committed_offset=self._end - BEHIND, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name=T0.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
        answer = self._connection.ask(ApiKey.OFFSET_COMMIT, 7, request, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0

    @property
    def log_end(self) -> int:
        """The end of the topic's log."""
        return self._end

    def wait_for(self, log_end: int) -> None:
        """Until the topic's log has so many records."""
        with self._rounds:
            assert self._rounds.wait_for(lambda: self._end >= log_end, HANGING_S)

    def end(self) -> None:
        """Stops the thread."""
        self._ended.set()
        self._thread.join()
        self._connection.close()


class Load(NamedTuple):
    """A daemon with a steady consumer."""

    log_dir: str
    bootstrap: str
    http: str
    consumer: SteadyConsumer


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    log_dir = str(tmp_path_factory.mktemp("lag") / "data")
    daemon = Daemon(log_dir, "-o", "log.flush=os")
    try:
        consumer = SteadyConsumer(daemon.bootstrap)
        yield Load(log_dir, daemon.bootstrap, daemon.http, consumer)
        consumer.end()
    finally:
        daemon.stop()


def committed_offset(log_dir: str, snapshot: Snapshot) -> int:
    """The last commit of the offsets log up to a snapshot."""
    assert snapshot.offsets_log is not None
    files, last = LogFiles(log_dir), -1
    for partition in find_partitions(files):
        seen = survey(files, partition, None, until=snapshot.offsets_log.get(partition.number, 0))
        assert seen.findings == []
        task = Task(tuple(ranges(seen, seen.first_offset, seen.next_offset)))
        for batch in read_task(files, task, Wanted(frozenset({COMMIT}))):
            last = max(last, *batch.column("offset").to_pylist())
    return last


def lag_of_daemon(http: str) -> int:
    """The lag that the daemon itself reports now."""
    with urllib.request.urlopen(f"http://{http}/v1/groups/{GROUP}/offsets", timeout=60) as answer:
        return int(json.load(answer)["lag"])


def measure_again(load: Load, source: str, snapshot: Snapshot) -> int:
    """The log end that a build finds much later for the instant of the snapshot."""
    period = Period(snapshot.instant_ms - 1000, snapshot.instant_ms, 1)
    if source == "bootstrap":
        ends = list(ends_of_cluster(load.bootstrap, [T0], period, snapshot))
    else:
        ends = list(ends_in_directory(load.log_dir, [T0], period, snapshot))
    assert all(end.at_ms <= snapshot.instant_ms for end in ends)
    return ends[-1].log_end_offset


@pytest.mark.parametrize("source", ["log_dir", "bootstrap"])
def test_commits_and_log_ends_are_of_one_instant_while_both_move(load: Load, source: str) -> None:
    take_snapshot = snapshot_taker(load.log_dir, load.bootstrap if source == "bootstrap" else None)
    for _ in range(5):
        assert BEHIND <= lag_of_daemon(load.http) <= BEHIND + 1
        snapshot = take_snapshot()
        load.consumer.wait_for(snapshot.topics[T0].end + 200)
        end = measure_again(load, source, snapshot)
        assert end == snapshot.topics[T0].end
        assert BEHIND <= end - committed_offset(load.log_dir, snapshot) <= BEHIND + 1


@pytest.mark.parametrize("source", ["log_dir", "bootstrap"])
def test_a_log_end_of_no_snapshot_is_that_of_its_instant(load: Load, source: str) -> None:
    before = load.consumer.log_end
    load.consumer.wait_for(before + 50)
    instant_ms = int(time.time() * 1000)
    after = load.consumer.log_end
    load.consumer.wait_for(after + 200)
    end = measure_again(load, source, Snapshot(instant_ms, {}))
    assert before + 50 <= end <= after + 10  # records of the same millisecond, and one on its way
