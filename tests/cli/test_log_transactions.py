"""`groupd log dump` and `verify` on logs with transactions."""

from pathlib import Path

from protocol.codec import writer
from protocol.records.transaction_state import TransactionLogKey, TransactionLogValue, TransactionPartitions
from storage.files import OsFiles
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.cli.log_directory import json_lines, log, write_data_directory
from tests.storage.transactional_log import TransactionalLog

TRANSACTIONS = TopicPartition("__transaction_state", 7)


def state(transactional_id: str, value: TransactionLogValue | None) -> Record:
    key, data = bytearray(b"\0\0"), bytearray(b"\0\1")
    writer(TransactionLogKey, 0)(TransactionLogKey(transactional_id=transactional_id), key)
    if value is not None:
        writer(TransactionLogValue, 1)(value, data)
    return Record(-1, 1_700_000_000_000, bytes(key), None if value is None else bytes(data))


ONGOING = TransactionLogValue(
    producer_id=1000,
    producer_epoch=3,
    transaction_timeout_ms=60000,
    transaction_status=1,
    transaction_partitions=[TransactionPartitions(topic="orders", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=1_700_000_000_000,
    transaction_start_timestamp_ms=1_700_000_000_000,
    previous_producer_id=1000,
    client_transaction_version=2,
)


def test_transaction_records_have_kafkas_names(tmp_path: Path) -> None:
    broken = Record(-1, 0, b"\0\1", b"\0\0")
    write_data_directory(tmp_path, {TRANSACTIONS: [[state("pay", ONGOING)], [state("pay", None)], [broken]]})
    said, deleted, bad = json_lines(log("dump", "--json", tmp_path))
    assert said["type"] == deleted["type"] == bad["type"] == "transaction"
    assert said["key"] == deleted["key"] == {"transactional_id": "pay"}
    assert said["value"]["state"] == "Ongoing"
    assert said["value"]["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0, 2]}]
    assert (said["value"]["previous_producer_id"], said["value"]["next_producer_id"]) == (1000, -1)
    assert deleted["tombstone"]
    assert deleted["value"] is None
    assert bad["value"] == {"hex": "0000"}
    assert "version 1" in bad["error"]
    text = log("dump", tmp_path).output
    assert "transaction transactional_id=pay state=Ongoing producer_id=1000 producer_epoch=3" in text
    assert "partitions=[orders-0, orders-2]" in text
    assert "transactional_id=pay <DELETE>" in text
    assert len(json_lines(log("dump", "--json", "--topic", "orders", tmp_path))) == 1
    assert len(json_lines(log("dump", "--json", "--type", "transaction", tmp_path))) == 3
    assert log("verify", tmp_path).exit_code == 0


def transactional(tmp_path: Path) -> Path:
    """A partition with a committed, an aborted and an open transaction."""
    directory = tmp_path / "orders-0"
    transactions = TransactionalLog(OsFiles(), directory=str(directory))
    transactions.data(7)
    transactions.end(7, is_committed=True, coordinator_epoch=4)
    transactions.data(8)
    transactions.end(8, is_committed=False, coordinator_epoch=5)
    transactions.data(9, 2)
    transactions.log.close()
    return directory


def test_batches_of_transactions_and_their_markers(tmp_path: Path) -> None:
    directory = transactional(tmp_path)
    printed = json_lines(log("dump", "--json", directory))
    assert [each["batch"]["is_transactional"] for each in printed] == [True] * 6
    assert [each["batch"]["producer_id"] for each in printed] == [7, 7, 8, 8, 9, 9]
    markers = [each for each in printed if each["type"] == "control"]
    assert [each["key"]["marker"] for each in markers] == ["commit", "abort"]
    assert [each["value"]["coordinator_epoch"] for each in markers] == [4, 5]
    text = log("dump", directory).output
    assert "control abort type=0 coordinator_epoch=5 transactional producer_id=8 producer_epoch=0" in text
    assert log("verify", directory).exit_code == 0


def test_the_index_of_aborted_transactions_and_the_snapshot_of_producers(tmp_path: Path) -> None:
    directory = transactional(tmp_path)
    index, snapshot = directory / f"{0:020d}.txnindex", directory / f"{6:020d}.snapshot"
    (aborted,) = json_lines(log("dump", "--json", index))
    assert aborted == {
        "type": "aborted_transaction",
        "producer_id": 8,
        "first_offset": 2,
        "last_offset": 3,
        "last_stable_offset": 4,
    }
    producers = json_lines(log("dump", "--json", snapshot))
    assert [each["producer_id"] for each in producers] == [7, 8, 9]
    assert [each["transaction_first_offset"] for each in producers] == [None, None, 4]
    assert [each["coordinator_epoch"] for each in producers] == [4, 5, -1]
    assert log("dump", index).output == (
        "aborted_transaction producer_id=8 first_offset=2 last_offset=3 last_stable_offset=4\n"
    )
    assert "producer producer_id=9 producer_epoch=0" in log("dump", snapshot).output


def test_invalid_producer_files_are_reported(tmp_path: Path) -> None:
    directory = transactional(tmp_path)
    snapshot = directory / f"{6:020d}.snapshot"
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    result = log("dump", snapshot)
    assert result.exit_code == 2
    assert "checksum" in result.stderr
    (finding, _total) = json_lines(log("verify", "--json", directory), exit_code=1)
    assert finding["kind"] == "producer_snapshot"
