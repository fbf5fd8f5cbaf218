"""Markers: where they are written, their effect, and their rejections."""

import errno

import pytest

from coordinator.config.properties import Config
from coordinator.core.shared_types import LogFlush
from coordinator.topics.data_plane_answer import MarkerRepeated, PartitionFailed, SegmentRolled
from protocol.error_codes import ErrorCode
from storage.producers.end_transaction_marker import EndMarker, decode_marker
from storage.producers.producer_state import MAX_EPOCH
from storage.stored_batch import StoredBatch
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import NOW_MS, Broker
from tests.topics.transacting import abort, commit, end, producer, write


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.create("orders")


def last_batch(broker: Broker, topic: str = "orders") -> StoredBatch:
    part = broker.plane.catalogue.find_partition(topic, 0)
    assert part is not None
    assert part.log is not None
    *_, last = part.log.iterate_batches()
    return last


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_is_a_control_batch(broker: Broker, is_committed: bool) -> None:
    write(broker, count=2)
    broker.advance(1000)
    written = end(broker, epoch=3, is_committed=is_committed, coordinator_epoch=9)
    assert (written.error, written.log, written.end_offset) == (ErrorCode.NONE, None, 3)
    stored = last_batch(broker)
    header = stored.header
    assert (header.base_offset, header.records_count, header.attributes) == (2, 1, 0x30)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.max_timestamp_ms == NOW_MS + 1000
    assert decode_marker(header, stored.records()) == EndMarker(is_committed, 9)


def test_a_marker_is_written_where_nothing_is_open(broker: Broker) -> None:
    assert end(broker, 99, 5, coordinator_epoch=2).error is ErrorCode.NONE
    known = producer(broker, 99)
    assert (known.producer_epoch, known.last_sequence, known.coordinator_epoch) == (5, -1, 2)


@pytest.mark.parametrize(("topic", "partition"), [("gone", 0), ("orders", 1), ("orders", -1)])
def test_partitions_that_do_not_exist(broker: Broker, topic: str, partition: int) -> None:
    assert end(broker, topic=topic, partition=partition).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Each for a transaction that is open at epoch 1, after a marker of a coordinator of epoch 5.
@pytest.mark.parametrize(
    ("level", "epoch", "coordinator_epoch", "code"),
    [
        (0, 0, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 1, 5, ErrorCode.NONE),
        (0, 1, 6, ErrorCode.NONE),
        (0, 1, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (0, 2, 5, ErrorCode.NONE),
        (1, 0, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 1, 5, ErrorCode.NONE),
        (2, 0, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 1, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 2, 5, ErrorCode.NONE),
        (2, 2, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (2, 0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_which_markers_end_a_transaction(
    broker: Broker, level: int, epoch: int, coordinator_epoch: int, code: ErrorCode
) -> None:
    end(broker, epoch=1, coordinator_epoch=5)
    write(broker, epoch=1)
    assert end(broker, epoch=epoch, coordinator_epoch=coordinator_epoch, level=level).error is code
    assert (producer(broker).current_txn_start_offset == -1) == (code is ErrorCode.NONE)


def test_a_repeated_marker_is_written_and_told(broker: Broker) -> None:
    write(broker)
    commit(broker, epoch=1, level=2)
    written = end(broker, epoch=1, level=2)
    assert (written.error, written.end_offset) == (ErrorCode.NONE, 3)
    assert written.changes == [MarkerRepeated("orders", 0, 7, 1)]
    assert end(broker, epoch=1, level=0).changes == []


def test_the_last_epoch_of_all_ends_what_has_it(broker: Broker) -> None:
    write(broker, epoch=MAX_EPOCH)
    commit(broker, epoch=MAX_EPOCH, level=2)
    assert producer(broker).current_txn_start_offset == -1


def test_limits_of_the_topic_are_for_clients(broker: Broker) -> None:
    broker.create("tight", max_message_bytes="1", internal_segment_bytes="100", cleanup_policy="compact")
    assert end(broker, topic="tight").error is ErrorCode.NONE
    written = end(broker, topic="tight")
    assert written.error is ErrorCode.NONE
    assert [type(change) for change in written.changes] == [SegmentRolled]


def test_in_a_topic_that_stamps_times_a_marker_is_stamped(broker: Broker) -> None:
    broker.create("stamped", message_timestamp_type="LogAppendTime")
    end(broker, topic="stamped")
    assert last_batch(broker, "stamped").header.is_log_append_time


def test_with_log_flush_always_a_marker_waits_for_the_disk(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/flushed", Config(log_flush=LogFlush.ALWAYS))
    broker.create("orders")
    written = end(broker)
    assert written.log is not None
    assert (written.end_offset, written.log.durable_offset) == (1, 0)
    broker.stop()


def test_a_disk_that_fails_is_no_end(broker: Broker) -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    write(broker)
    files.fail("write", error=errno.ENOSPC)
    written = end(broker)
    assert written.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert [type(change) for change in written.changes] == [PartitionFailed]
    assert producer(broker).current_txn_start_offset == 0
    assert end(broker).error is ErrorCode.NONE


def test_a_partition_that_is_offline_is_tried_again() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    write(broker)
    files.fail("write", torn_bytes=10)
    files.fail("truncate")
    assert end(broker).error is ErrorCode.KAFKA_STORAGE_ERROR
    files.fail("open", times=10**6)
    assert end(broker).error is ErrorCode.KAFKA_STORAGE_ERROR
    files.faults.clear()
    broker.advance(1000)
    assert end(broker).error is ErrorCode.NONE
    assert producer(broker).current_txn_start_offset == -1


def test_a_restart_remembers_markers(broker: Broker) -> None:
    write(broker, count=3)
    abort(broker, epoch=2)
    broker.restart()
    known = producer(broker)
    assert (known.producer_epoch, known.coordinator_epoch, known.current_txn_start_offset) == (2, 0, -1)
    assert write(broker, epoch=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
