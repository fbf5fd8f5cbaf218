"""Verification and repair of transaction indexes and producer snapshots."""

import struct

import pytest

from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding
from storage.inspection.log_reader import LogListing, find_logs
from storage.inspection.verification import LogVerification
from storage.repair.repair import LogRepair
from storage.repair.repair_copy import RepairCopy
from storage.repair.repair_in_place import repair_in_place
from storage.transaction_index import decode_transaction_index, find_transaction_indexes
from tests.storage.faulty_files import FaultyFiles
from tests.storage.transactional_log import DIRECTORY, TransactionalLog


def stopped() -> tuple[FaultyFiles, TransactionalLog]:
    """A log with aborted transactions in several segments."""
    files = FaultyFiles()
    transactions = TransactionalLog(files)
    for number in range(12):
        transactions.data(number % 2)
        transactions.data(number % 2, key="more")
        transactions.end(number % 2, is_committed=number % 3 == 0)
    transactions.log.close()
    assert len(find_transaction_indexes(files.listdir(DIRECTORY))) > 2
    return files, transactions


def the_log(files: FaultyFiles) -> LogListing:
    (log,) = find_logs(files, DIRECTORY)
    return log


def findings(files: FaultyFiles) -> list[LogFinding]:
    return list(LogVerification(files, the_log(files)).find_problems())


def first_index(files: FaultyFiles) -> str:
    return f"{DIRECTORY}/{find_transaction_indexes(files.listdir(DIRECTORY))[0]:020d}.txnindex"


def test_a_sound_log_has_no_findings() -> None:
    files, _ = stopped()
    assert findings(files) == []


@pytest.mark.parametrize("damage", ["missing", "short", "foreign", "no index"])
def test_an_index_that_disagrees_with_its_segment_is_found_and_repaired(damage: str) -> None:
    files, transactions = stopped()
    path = first_index(files)
    data = files.read(path)
    if damage == "missing":
        files.unlink(path)
    elif damage == "short":
        files.write(path, data[34:])
    elif damage == "foreign":
        last = decode_transaction_index(data, path)[-1]
        files.write(path, data + struct.pack(">hqqqq", 0, 5, 0, last.last_offset + 1, last.last_offset + 2))
    else:
        files.write(path, b"\xff" * 34)
    (finding,) = findings(files)
    assert (finding.kind, finding.path) == (FindingKind.TRANSACTION_INDEX, path)
    is_found_out = damage == "no index"
    assert finding.effect is (
        FindingEffect.REBUILT if is_found_out else FindingEffect.MISLEADS_COMMITTED_READS
    )
    if not is_found_out:
        repair_in_place(files, the_log(files), lambda log: LogRepair(files, log))
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    transactions.check()
    assert files.read(path) == data


def test_a_torn_snapshot_is_found_and_the_next_start_does_without() -> None:
    files, transactions = stopped()
    path = f"{DIRECTORY}/{transactions.log.log_end_offset:020d}.snapshot"
    files.write(path, files.read(path)[:-1])
    (finding,) = findings(files)
    assert (finding.kind, finding.effect, finding.path) == (
        FindingKind.PRODUCER_SNAPSHOT,
        FindingEffect.REBUILT,
        path,
    )
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    transactions.check()


@pytest.mark.parametrize("is_in_place", [False, True])
def test_what_a_repair_leaves_out_is_in_no_index(is_in_place: bool) -> None:
    files, transactions = stopped()
    # The first aborted transaction loses its marker: its records now belong to the next transaction.
    lost = transactions.model.aborted()[0]
    batch = next(
        each for each in transactions.log.iterate_batches() if each.header.base_offset == lost.last_offset
    )
    files.names[batch.path].data[batch.position + 30] ^= 1
    directory = DIRECTORY
    if is_in_place:
        repair_in_place(files, the_log(files), lambda log: LogRepair(files, log))
    else:
        copy = RepairCopy(files, "/repaired")
        copy.add_log(the_log(files), LogRepair(files, the_log(files)))
        directory = "/repaired/orders-0"
        for name in files.listdir(DIRECTORY):
            files.unlink(f"{DIRECTORY}/{name}")
        for name in files.listdir(directory):
            files.replace(f"{directory}/{name}", f"{DIRECTORY}/{name}")
    transactions.model.events = [
        event for event in transactions.model.events if event.offset != lost.last_offset
    ]
    transactions.take_up(files, transactions.log.log_end_offset, was_clean=True)
    transactions.check()
    transactions.log.close()
    assert findings(files) == []
