import pytest

from storage.batch import read_header
from storage.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.storage_errors import DamagedFile
from tests.storage.faulty_files import FaultyFiles

DIRECTORY = "/data/orders-0"


def read(text: str | None) -> LeaderEpochs | None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.mkdir(DIRECTORY)
    if text is not None:
        files.write(f"{DIRECTORY}/{LEADER_EPOCHS}", text.encode())
    return LeaderEpochs.read(files, DIRECTORY)


@pytest.mark.parametrize(
    "text", [None, "", "\0\0\0", "0\n0\n", "0\n", "0\n1\n", "0\n1\n0 1", "0\n1\n0 1\0\0"]
)
def test_a_checkpoint_that_is_missing_empty_or_torn_names_no_epoch(text: str | None) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("1\n1\n0 0\n", "0\nx\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\n0 1 2\n"),
        *("0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 4\n"),
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(DamagedFile):
        read(text)


def test_where_epochs_end() -> None:
    epochs = read("0\n3\n2 10\n3 25\n7 40\n")
    assert epochs is not None
    assert epochs.current == 7
    wanted = {-1: (-1, -1), 0: (0, 10), 2: (2, 25), 3: (3, 40), 5: (3, 40), 7: (7, 60), 8: (-1, -1)}
    assert {epoch: epochs.find_end_offset(epoch, 60) for epoch in wanted} == wanted
    assert epochs.find_end_offset(3, 30) == (3, 30)
    assert [epochs.find_epoch(offset) for offset in (0, 10, 24, 25, 39, 40, 99)] == [2, 2, 2, 3, 3, 7, 7]


def test_a_log_goes_on_in_the_epoch_that_it_was_left_in() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    log.append_records([Record(-1, 1000, b"key", b"value")])
    assert (log.leader_epochs.current, log.leader_epochs.find_end_offset(0, 1)) == (0, (0, 1))
    log.close()
    files.write(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\n2\n0 0\n4 1\n")
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    result = log.append_records([Record(-1, 1000, b"key", b"value")])
    (batch,) = [batch for batch in log.iterate_batches() if batch.header.base_offset == result.base_offset]
    assert read_header(batch.data).partition_leader_epoch == 4
    log.close()
    assert files.read(f"{DIRECTORY}/{LEADER_EPOCHS}") == b"0\n2\n0 0\n4 1\n"


@pytest.mark.parametrize(
    ("text", "log_end_offset", "above", "begun"),
    [
        ("0\n1\n0 0\n", 0, -1, "0\n1\n0 0\n"),
        ("0\n1\n0 0\n", 5, 0, "0\n2\n0 0\n1 5\n"),
        ("0\n2\n0 0\n1 5\n", 5, 0, "0\n2\n0 0\n1 5\n"),  # epoch 1 is empty and continues
        ("0\n2\n0 0\n1 5\n", 5, 1, "0\n2\n0 0\n2 5\n"),  # epoch 1 had records and lost them
        ("0\n3\n0 0\n1 5\n2 9\n", 7, 1, "0\n3\n0 0\n1 5\n3 7\n"),  # a crash lost the records
        ("0\n1\n0 0\n", 5, 8, "0\n2\n0 0\n9 5\n"),  # a killed broker's checkpoint lost the epochs
    ],
)
def test_the_next_epoch_begins_where_the_log_ends(
    text: str, log_end_offset: int, above: int, begun: str
) -> None:
    epochs = read(text)
    assert epochs is not None
    files = FaultyFiles()
    files.mkdir(DIRECTORY)
    files.fsync_directory("/data")
    epochs.with_next_epoch(log_end_offset, above=above).write_durably(files, DIRECTORY)
    assert files.read(f"{DIRECTORY}/{LEADER_EPOCHS}") == begun.encode()


def test_a_checkpoint_that_cannot_be_replaced_stays() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    log = PartitionLog.open(files, DIRECTORY, LogConfig())
    files.fail("replace")
    with pytest.raises(OSError, match="error"):
        log.leader_epochs.with_next_epoch(0, above=-1).write_durably(files, DIRECTORY)
    again = LeaderEpochs.read(files, DIRECTORY)
    assert again is not None
    assert again.current == 0
    log.close()
