import struct

import pytest

from storage.errors import DamagedFile
from storage.transaction_index import AbortedTransaction, AbortedTransactions, read_aborted
from tests.storage.faulty_files import FaultyFiles

NEVER = 2**63 - 1


def entry(producer_id: int, first: int, last: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, producer_id, first, last, last + 1)


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/log")
    return files


def test_the_indexes_of_all_segments_and_what_never_ended(files: FaultyFiles) -> None:
    files.write(f"/log/{0:020d}.txnindex", entry(7, 3, 9) + entry(8, 1, 12))
    files.write(f"/log/{20:020d}.txnindex", entry(7, 20, 25) + b"torn")
    files.write(f"/log/{30:020d}.txnindex.deleted", entry(9, 30, 31))
    aborted = read_aborted(files, "/log", {5: 24})
    assert aborted
    never_ended = AbortedTransaction(5, 24, NEVER)
    first, second, third = (AbortedTransaction(*numbers) for numbers in ((8, 1, 12), (7, 3, 9), (7, 20, 25)))
    assert aborted.within(0, 100) == [first, second, third, never_ended]
    assert aborted.within(10, 20) == [first]
    assert aborted.within(12, 21) == [first, third]
    assert aborted.within(13, 20) == []
    assert aborted.within(26, 27) == [never_ended]


def test_a_log_without_transactions_has_none(files: FaultyFiles) -> None:
    assert not read_aborted(files, "/log", {})
    assert AbortedTransactions().within(0, 100) == []


@pytest.mark.parametrize("bad", [entry(7, 3, 9, version=1), entry(7, 9, 3), entry(7, -1, 3)])
def test_what_is_no_index_is_refused(files: FaultyFiles, bad: bytes) -> None:
    files.write(f"/log/{0:020d}.txnindex", bad)
    with pytest.raises(DamagedFile):
        read_aborted(files, "/log", {})
