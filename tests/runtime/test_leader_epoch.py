"""Leader epochs that begin with the machines of a log."""

import pytest

from coordinator.runtime.partition_loader import begin_leader_epoch
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

DIRECTORY = "/data/__transaction_state-0"


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    return files


def opened(files: FaultyFiles) -> PartitionLog:
    return PartitionLog.open(files, DIRECTORY, LogConfig())


def test_batches_carry_the_epoch_and_consumers_are_told_where_each_ended(files: FaultyFiles) -> None:
    log = opened(files)
    for count in (2, 0, 3):
        begin_leader_epoch(log)
        for number in range(count):
            log.append_records([record(number)])
    assert [batch.header.partition_leader_epoch for batch in log.iterate_batches()] == [0, 0, 1, 1, 1]
    assert [log.leader_epochs.find_end_offset(epoch, 5) for epoch in (0, 1)] == [(0, 2), (1, 5)]
    log.close()
    again = opened(files)
    assert again.leader_epochs.find_end_offset(0, 5) == (0, 2)
    again.close()


def test_an_epoch_outlives_a_power_cut_as_soon_as_it_has_begun(files: FaultyFiles) -> None:
    log = opened(files)
    log.append_records([record(1)])
    log.sync()
    begin_leader_epoch(log)
    log.append_records([record(2)])
    begin_leader_epoch(log)
    survivor = opened(files.crash())
    assert survivor.log_end_offset == 1
    begin_leader_epoch(survivor)
    assert survivor.leader_epochs.current == 3
    found = LeaderEpochs.read(survivor.files, DIRECTORY)
    assert found is not None
    assert (found.current, found.find_end_offset(0, 1)) == (3, (0, 1))
    survivor.close()
    log.close()


def test_it_is_above_what_batches_say_where_the_checkpoint_of_a_broker_is_empty(files: FaultyFiles) -> None:
    log = opened(files)
    files.write(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\n2\n0 0\n7 0\n")
    log.close()
    log = opened(files)
    log.append_records([record(1)])
    log.close()
    files.write(f"{DIRECTORY}/{LEADER_EPOCHS}", b"")
    log = opened(files)
    begin_leader_epoch(log)
    assert log.leader_epochs.current == 8
    log.close()
