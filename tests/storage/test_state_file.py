"""State files: loaded only with the log that they were taken from."""

import errno
import json
from collections.abc import Callable

import pytest

from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.state_file import StateFile, StatePoint, find_state
from storage.storage_errors import DamagedFile
from tests.runtime.states import written_state
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

DIRECTORY = "/data/orders-0"
CONTENTS = "numbers"
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    return files


def opened(files: FaultyFiles, records: int = 0) -> PartitionLog:
    log = PartitionLog.open(files, DIRECTORY, CONFIG)
    for number in range(records):
        log.append_records([record(number)])
    log.sync()
    return log


def write(files: FaultyFiles, log: PartitionLog, end_offset: int, contents: str = CONTENTS) -> str:
    point = StatePoint.at_offset(log, end_offset)
    assert point is not None
    batches = [
        encode_batch([Record(-1, -1, b"end", str(end_offset).encode())]),
        encode_batch([record(1)] * 3),
    ]
    return written_state(files, log, point, contents, 4, batches)


def read(state: StateFile) -> list[Record]:
    return [found for batch in state.iterate_batches() for found in batch]


def states(files: FaultyFiles) -> list[str]:
    return [name for name in files.listdir(DIRECTORY) if ".state" in name]


def test_what_is_written_is_found(files: FaultyFiles) -> None:
    log = opened(files, 20)
    write(files, log, 12)
    log.close()
    state, ignored = find_state(files, opened(files), CONTENTS)
    assert state is not None
    assert (state.end_offset, ignored) == (12, [])
    assert [found.value for found in read(state)][:1] == [b"12"]
    assert len(read(state)) == 4


def test_a_newer_state_takes_the_place_of_the_older(files: FaultyFiles) -> None:
    log = opened(files, 20)
    write(files, log, 12)
    path = write(files, log, 20)
    assert [f"{DIRECTORY}/{name}" for name in states(files)] == [path]


def test_there_is_no_point_in_the_middle_of_a_batch(files: FaultyFiles) -> None:
    log = opened(files, 2)
    log.append_records([record(2), record(3)])
    assert StatePoint.at_offset(log, 3) is None
    assert StatePoint.at_offset(log, 4) is not None
    assert StatePoint.at_offset(log, 5) is None
    assert StatePoint.at_offset(log, 0) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.truncate_to(9),
        lambda log: (log.truncate_to(9), [log.append_records([record(99)]) for _ in range(9)]),
        lambda log: log.delete_records_before(5),
    ],
    ids=["cut back", "cut back and grown again", "deleted from the front"],
)
def test_a_log_that_changed_has_no_state(
    files: FaultyFiles, change: Callable[[PartitionLog], object]
) -> None:
    log = opened(files, 20)
    write(files, log, 12)
    change(log)
    state, ignored = find_state(files, log, CONTENTS)
    assert state is None
    assert len(ignored) == 1
    assert states(files) == []


def test_a_state_of_something_else_is_none(files: FaultyFiles) -> None:
    log = opened(files, 20)
    write(files, log, 12, "letters")
    assert find_state(files, log, CONTENTS)[0] is None


@pytest.mark.parametrize(
    "header", [{}, [], {"format": 2}, {"format": 1, "contents": CONTENTS, "end_offset": []}]
)
def test_a_header_that_makes_no_sense(files: FaultyFiles, header: object) -> None:
    log = opened(files, 20)
    text = json.dumps(header).encode()
    files.write(f"{DIRECTORY}/{12:020d}.state", encode_batch([Record(-1, -1, b"state", text)]))
    state, ignored = find_state(files, log, CONTENTS)
    assert (state, len(ignored)) == (None, 1)


def test_every_byte_of_it_counts(files: FaultyFiles) -> None:
    log = opened(files, 20)
    path = write(files, log, 12)
    whole = files.read(path)
    state, _ = find_state(files, log, CONTENTS)
    assert state is not None
    wanted = [(found.key, found.value) for found in read(state)]
    refused = 0
    for position in range(len(whole)):
        changed = bytes([whole[position] ^ 1])
        for damaged in (whole[:position], whole[:position] + changed + whole[position + 1 :]):
            files.write(path, damaged)
            state, _ = find_state(files, log, CONTENTS)
            try:
                # Neither base offset nor leader epoch is under a batch's checksum, or of any meaning here.
                assert state is None or [(found.key, found.value) for found in read(state)] == wanted
                refused += state is None
            except DamagedFile:
                refused += 1
    assert refused > len(whole)


def test_a_file_that_cannot_be_removed_is_told(files: FaultyFiles) -> None:
    log = opened(files, 20)
    write(files, log, 12)
    files.fail("unlink", error=errno.EROFS)
    files.write(f"{DIRECTORY}/{17:020d}.state", b"")
    state, ignored = find_state(files, log, CONTENTS)
    assert state is not None
    assert len(ignored) == 2
