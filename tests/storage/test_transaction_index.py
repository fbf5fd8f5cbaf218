import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.storage_errors import DamagedFile
from storage.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    decode_transaction_index,
    encode_transaction_index,
    read_aborted_transactions,
)
from tests.storage.faulty_files import FaultyFiles


def entry(producer_id: int, first: int, last: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, producer_id, first, last, last + 1)


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/log")
    return files


def test_the_indexes_of_all_segments_in_the_order_of_the_markers(files: FaultyFiles) -> None:
    files.write(f"/log/{0:020d}.txnindex", entry(7, 3, 9) + entry(8, 1, 12))
    files.write(f"/log/{20:020d}.txnindex", entry(7, 20, 25) + b"torn")
    files.write(f"/log/{30:020d}.txnindex.deleted", entry(9, 30, 31))
    aborted = read_aborted_transactions(files, "/log")
    first, second, third = (
        AbortedTransaction(*numbers, numbers[2] + 1) for numbers in ((7, 3, 9), (8, 1, 12), (7, 20, 25))
    )
    assert list(aborted) == [first, second, third]
    assert aborted.find_overlapping(0, 100) == [first, second, third]
    assert aborted.find_overlapping(10, 20) == [second]
    assert aborted.find_overlapping(12, 21) == [second, third]
    assert aborted.find_overlapping(13, 20) == []
    assert aborted.find_overlapping(26, 27) == []


def test_the_search_ends_where_nothing_earlier_was_open() -> None:
    earlier, later = AbortedTransaction(1, 5, 6, 7), AbortedTransaction(2, 2, 9, 10)
    assert AbortedTransactions([earlier, later]).find_overlapping(0, 7) == [earlier]
    earlier = earlier._replace(last_stable_offset=2)
    assert AbortedTransactions([earlier, later]).find_overlapping(0, 7) == [earlier, later]


def test_a_log_without_transactions_has_none(files: FaultyFiles) -> None:
    assert not read_aborted_transactions(files, "/log")
    assert AbortedTransactions().find_overlapping(0, 100) == []


@pytest.mark.parametrize(
    "bad",
    [
        entry(7, 3, 9, version=1),
        entry(7, 9, 3),
        entry(7, -1, 3),
        entry(-1, 1, 3),
        entry(7, 3, 9) + entry(8, 1, 9),
    ],
)
def test_what_is_no_index_is_refused(files: FaultyFiles, bad: bytes) -> None:
    files.write(f"/log/{0:020d}.txnindex", bad)
    with pytest.raises(DamagedFile):
        read_aborted_transactions(files, "/log")


ABORTED = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 40)), unique_by=lambda each: each[2]
).map(
    lambda rows: sorted(
        (AbortedTransaction(pid, min(first, last), last, last + 1) for pid, first, last in rows),
        key=lambda each: each.last_offset,
    )
)


@given(ABORTED, st.integers(0, 41), st.integers(0, 41), st.integers(0, 41))
def test_it_is_a_list_by_marker(
    found: list[AbortedTransaction], start: int, end: int, forgotten: int
) -> None:
    assert decode_transaction_index(encode_transaction_index(found), "index") == found
    aborted = AbortedTransactions(reversed(found))
    assert list(aborted) == found
    start, end = min(start, end), max(start, end)
    inside = [each for each in found if start <= each.last_offset < end]
    assert aborted.find_ended_within(start, end) == inside
    assert [offset for offset in range(41) if aborted.has_marker(offset)] == [each[2] for each in found]
    aborted.replace_range(start, end, inside[1:])
    assert list(aborted) == [each for each in found if each not in inside[:1]]
    aborted.remove_before(forgotten)
    assert list(aborted) == [
        each for each in found if each not in inside[:1] and each.last_offset >= forgotten
    ]
