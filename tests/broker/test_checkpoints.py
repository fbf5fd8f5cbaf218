"""Checkpoints that are written while the daemon serves."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.broker.checkpoint_writer import TEMPORARY_SUFFIX, CheckpointWriter
from coordinator.core.daemon_log import OngoingFailures
from storage.data_directory import DataDirectory
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.offset_checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client, serving
from tests.broker.test_group_partitions import ONE_PARTITION, commit
from tests.broker.test_log_cleaner import one_turn
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
POINTS = f"/data/{RECOVERY_POINTS}"
STARTS = f"/data/{LOG_START_OFFSETS}"
SOON = {**ONE_PARTITION, "log.flush.offset.checkpoint.interval.ms": "10"}


class SlowFiles(FaultyFiles):
    """An fdatasync outside of the main thread takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_syncing = threading.Event()
        self.goes_on = threading.Event()

    def call(self, operation: str) -> int:
        if operation == "fdatasync" and threading.current_thread() is not threading.main_thread():
            self.is_syncing.set()
            assert self.goes_on.wait(60)
        return super().call(operation)


def opened(files: FaultyFiles) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"))
    log = directory.open_log(ORDERS, LogConfig())
    for number in range(3):
        log.append_records([record(number)])
    log.sync()
    return directory, log


def delete_topic(directory: DataDirectory, log: PartitionLog) -> None:
    directory.delete_logs({ORDERS: log})


def delete_records(directory: DataDirectory, log: PartitionLog) -> None:
    log.delete_records_before(2)
    directory.write_checkpoints({ORDERS: log})


def abandon(directory: DataDirectory, log: PartitionLog) -> None:
    directory.abandon()


def stop(directory: DataDirectory, log: PartitionLog) -> None:
    log.append_records([record(3)])
    directory.close({ORDERS: log})


@pytest.mark.parametrize(
    ("change", "points", "starts"),
    [
        (delete_topic, {}, {}),
        (delete_records, {ORDERS: 3}, {ORDERS: 2}),
        (stop, {ORDERS: 4}, {}),
        (abandon, {}, {}),
    ],
)
async def test_what_was_being_written_does_not_replace_what_is_newer(
    change: Callable[[DataDirectory, PartitionLog], None],
    points: dict[TopicPartition, int],
    starts: dict[TopicPartition, int],
) -> None:
    files = SlowFiles()
    directory, log = opened(files)
    checkpoints = CheckpointWriter(directory, OngoingFailures("LogManager"))
    checkpoints.write_due_checkpoints({ORDERS: log})
    await asyncio.to_thread(files.is_syncing.wait, 10)
    change(directory, log)
    files.goes_on.set()
    await checkpoints.stop()
    for left in (files.crash(), files.kill()):
        assert read_offsets(left, POINTS) == points
        assert read_offsets(left, STARTS) == starts
    assert not [name for name in files.names if name.endswith(".tmp")]


async def test_what_a_crash_left_of_one_is_no_part_of_the_next() -> None:
    files = FaultyFiles()
    directory, log = opened(files)
    checkpoints = CheckpointWriter(directory, OngoingFailures("LogManager"))
    files.write(POINTS + TEMPORARY_SUFFIX, b"0\n1\norders 0 1\n" * 9)
    checkpoints.write_due_checkpoints({ORDERS: log})
    await checkpoints.stop()
    assert files.read(POINTS) == b"0\n1\norders 0 3\n"


async def test_a_disk_that_refuses_is_told_once_for_each_file_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = FaultyFiles()
    directory, log = opened(files)
    checkpoints = CheckpointWriter(directory, OngoingFailures("LogManager"))
    files.fail("write", error=errno.ENOSPC)
    files.fail("fdatasync", error=errno.EIO)
    checkpoints.write_due_checkpoints({ORDERS: log})
    await checkpoints.stop()
    first, second = caplog.messages
    assert (POINTS in first, "no space left" in first) == (True, True)
    assert (STARTS in second, "input/output error" in second) == (True, True)
    checkpoints.write_due_checkpoints({ORDERS: log})
    await checkpoints.stop()
    assert len(caplog.messages) == 2
    assert read_offsets(files.crash(), POINTS) == {ORDERS: 3}


async def test_a_daemon_writes_them_again_and_again(tmp_path: Path) -> None:
    async with serving(tmp_path, SOON) as server, Client(server) as client:
        for number in range(1, 4):
            await client.call(commit(number), 2)
            while read_offsets(OsFiles(), f"{tmp_path}/{RECOVERY_POINTS}").get(OFFSETS) != number:
                await one_turn()
    assert not [name for name in OsFiles().listdir(str(tmp_path)) if name.endswith(".tmp")]
