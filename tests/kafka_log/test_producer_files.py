"""Producer snapshots and transaction indexes: groupd rebuilds a broker's files from its batches, and a broker
continues with files from groupd."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from storage.batch import encode_batch
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.producers.producer_snapshots import decode_snapshot
from storage.producers.producer_state_manager import ProducerStateManager
from storage.record import Record
from storage.transaction_index import decode_transaction_index
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_log.broker import KafkaBroker
from tests.kafka_log.connection import Connection
from tests.kafka_log.dump import dump_producer_files
from tests.oracle.batches import TIME_MS, fetch_request, produce_request

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC = "orders"
SEGMENT_BYTES = 1024 * 1024
DAY_MS = 86_400_000


def write(connection: Connection) -> int:
    """Transactions of several producers over several segments, some of them open to the end; where the log ends."""
    config = CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_BYTES))
    topic = CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[config]
    )
    created = connection.call(CreateTopicsRequest(topics=[topic]), 7)
    assert created.topics[0].error_code == 0, created
    while described(connection).error_code:
        time.sleep(0.1)
    end = 0
    for number in range(30):
        producer_id, sequence = 100 + number % 4, 2 * (number // 4)
        for part in range(2):
            batch = encode_batch(
                [Record(-1, TIME_MS + number, b"key", b"x" * 100_000)],
                producer_id=producer_id,
                base_sequence=sequence + part,
                producer_epoch=0,
                is_transactional=True,
            )
            answer = connection.call(produce_request((TOPIC, 0, batch), transactional_id="any"), 9)
            (partition,) = answer.responses[0].partition_responses
            assert partition.error_code == 0, partition
            end = partition.base_offset + 1
        if number % 4 != 3 and number < 28:  # the last producer's transaction stays open
            end += mark(connection, producer_id, is_committed=number % 3 == 0)
    return end


def mark(connection: Connection, producer_id: int, *, is_committed: bool) -> int:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=is_committed,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
        coordinator_epoch=7,
    )
    answer = connection.call(WriteTxnMarkersRequest(markers=[marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer
    return 1


def described(connection: Connection) -> DescribeProducersPartitionResponse:
    topic = DescribeProducersTopicRequest(name=TOPIC, partition_indexes=[0])
    answer = connection.call(DescribeProducersRequest(topics=[topic]), 0)
    partition: DescribeProducersPartitionResponse = answer.topics[0].partitions[0]
    return partition


def served(connection: Connection, end: int) -> tuple[list[Any], list[Any]]:
    """Return a broker's answers about its producers, and its aborted transactions in a Fetch from each offset."""
    producers = described(connection).active_producers
    fetched = []
    for offset in range(end):
        answer = connection.call(fetch_request((TOPIC, 0, offset), isolation_level=1, wait_ms=0), 11)
        partition = answer.responses[0].partitions[0]
        fetched.append((offset, partition.last_stable_offset, partition.aborted_transactions))
    return sorted(producers, key=lambda each: each.producer_id), fetched


def files_of(directory: Path, suffix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob(f"*{suffix}"))}


def entries(data: bytes) -> dict[int, tuple[Any, ...]]:
    """Return the entries of a snapshot by producer id."""
    return {
        key: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.transaction_offset,
            entry.last_timestamp_ms,
            *entry.batches,
        )
        for key, entry in decode_snapshot(data, "")
    }


def test_a_broker_and_groupd_write_the_same_and_go_on_with_each_others(tmp_path: Path) -> None:
    broker = KafkaBroker(str(tmp_path), {"transaction.partition.verification.enable": "false"})
    try:
        broker.start()
    except CannotBuild as reason:
        lacking(f"a broker: {reason}")
    try:
        with Connection(broker.bootstrap) as connection:
            end = write(connection)
            before = served(connection, end)
        broker.stop()
        directory = Path(broker.data_directory) / f"{TOPIC}-0"
        indexes, snapshots = files_of(directory, ".txnindex"), files_of(directory, ".snapshot")
        assert len(snapshots) > 3
        assert sum(map(len, indexes.values())) > 0
        rebuilt(directory, end, indexes, snapshots)
        broker.start()
        with Connection(broker.bootstrap) as connection:
            assert served(connection, end) == before
            # The open ones end as they would have.
            assert mark(connection, 103, is_committed=False)
        log_text = (tmp_path / "broker.log").read_text()
        assert "Found invalid producer snapshot" not in log_text
        assert "Failed to load producer snapshot" not in log_text
    finally:
        broker.kill()


def rebuilt(directory: Path, end: int, indexes: dict[str, bytes], snapshots: dict[str, bytes]) -> None:
    """groupd reads the files of a broker. After their removal it writes the same files from the batches."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES)

    def opened() -> PartitionLog:
        return PartitionLog.open(OsFiles(), str(directory), config, recovery_point=end, was_clean=True)

    log = opened()
    read = ProducerStateManager.load(log, DAY_MS)
    known = {key: entry.transaction_offset for key, entry in read.state.iterate_entries()}
    aborted = list(read.aborted)
    log.close(clean=False)
    assert set(known) == {100, 101, 102, 103}
    assert known[103] is not None
    for path in [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]:
        path.unlink()
    log = opened()
    found = ProducerStateManager.load(log, DAY_MS)
    assert list(found.aborted) == aborted
    assert {key: entry.transaction_offset for key, entry in found.state.iterate_entries()} == known
    log.close()
    index_files = files_of(directory, ".txnindex")
    assert {name: data for name, data in indexes.items() if data} == index_files
    written = files_of(directory, ".snapshot")
    assert written
    for name, data in written.items():
        assert entries(data) == entries(snapshots[name])
        assert len(data) == len(snapshots[name])
    said = dump_producer_files([str(directory / name) for name in [*index_files, *written]])
    assert said.count("lastStableOffset: ") == len(aborted)
    offsets = [int(offset) for offset in re.findall(r"firstOffset: (\d+) lastOffset", said)]
    assert offsets == [
        each.first_offset
        for name in index_files
        for each in decode_transaction_index(index_files[name], name)
    ]
    assert len(re.findall(r"currentTxnFirstOffset: ", said)) == sum(
        len(entries(data)) for data in written.values()
    )
