from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.segment_index import OffsetIndex, TimeIndex

STEPS = st.lists(st.tuples(st.integers(1, 100), st.integers(70, 5000)), max_size=30)


def offset_index(base_offset: int, steps: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    index = OffsetIndex(base_offset)
    entries = []
    offset, position = base_offset, 0
    for more_offsets, more_bytes in steps:
        offset, position = offset + more_offsets, position + more_bytes
        index.append(offset, position)
        entries.append((offset, position))
    return index, entries


def test_the_bytes_of_an_offset_index() -> None:
    index, _ = offset_index(1000, [(5, 4200), (3, 4100)])
    assert index.encode().hex() == "0000000500001068" + "000000080000206c"


def test_the_bytes_of_a_time_index() -> None:
    index = TimeIndex(1000)
    index.maybe_append(1700000000000, 1005)
    index.maybe_append(1700000000000, 1006)
    index.maybe_append(1700000000001, 1007)
    assert index.encode().hex() == "0000018bcfe5680000000005" + "0000018bcfe5680100000007"


@given(st.integers(0, 2**60), STEPS, st.integers(-10, 3500))
def test_an_offset_lookup_gives_the_greatest_entry_not_above(
    base_offset: int, steps: list[tuple[int, int]], distance: int
) -> None:
    index, entries = offset_index(base_offset, steps)
    below = [position for offset, position in entries if offset <= base_offset + distance]
    assert index.lookup(base_offset + distance) == max(below, default=0)
    assert index.last_position() == (entries[-1][1] if entries else 0)
    assert len(index) == len(entries)


@given(st.integers(0, 2**60), STEPS, st.integers(0, 160_000))
def test_the_first_entry_from_a_position(base_offset: int, steps: list[tuple[int, int]], at: int) -> None:
    index, entries = offset_index(base_offset, steps)
    for sought in (at, *(position for _, position in entries)):
        behind = [offset for offset, position in entries[:1] if position > sought]
        behind += [offset for offset, position in entries[1:] if position >= sought]
        assert index.find_offset_from(sought) == (min(behind) if behind else None)


@given(st.integers(0, 2**60), STEPS)
def test_an_offset_index_comes_back(base_offset: int, steps: list[tuple[int, int]]) -> None:
    index, entries = offset_index(base_offset, steps)
    size = entries[-1][1] + 1 if entries else 0
    for padding in (b"", bytes(80)):
        decoded = OffsetIndex.decode(base_offset, index.encode() + padding, size)
        assert decoded is not None
        assert decoded.encode() == index.encode()


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param("0000000500001068" + "00", id="half an entry"),
        pytest.param("0000000500001068" + "000000050000206c", id="offset twice"),
        pytest.param("0000000500001068" + "0000000600001068", id="position twice"),
        pytest.param("0000000500001068" + "0000000400002068", id="offset falls"),
        pytest.param("ffffffff00001068", id="negative offset"),
        pytest.param("00000005ffffffff", id="negative position"),
        pytest.param("0000000500010000", id="beyond the segment"),
    ],
)
def test_an_offset_index_that_cannot_be_is_refused(entries: str) -> None:
    assert OffsetIndex.decode(0, bytes.fromhex(entries), 0x10000) is None


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param("000000000000000500000005" + "00", id="half an entry"),
        pytest.param("000000000000000500000005" + "000000000000000500000006", id="time twice"),
        pytest.param("000000000000000500000005" + "000000000000000600000004", id="offset falls"),
        pytest.param("ffffffffffffffff00000005", id="negative time"),
    ],
)
def test_a_time_index_that_cannot_be_is_refused(entries: str) -> None:
    assert TimeIndex.decode(0, bytes.fromhex(entries)) is None


@given(st.lists(st.integers(-1, 50).filter(bool), max_size=40), st.integers(-2, 52))
def test_a_time_lookup_never_passes_a_record_that_is_late_enough(times: list[int], target: int) -> None:
    index = TimeIndex(700)
    latest, latest_offset = -1, 700
    for offset, time in enumerate(times, start=700):
        if time > latest:
            latest, latest_offset = time, offset
        index.maybe_append(latest, latest_offset)
    decoded = TimeIndex.decode(700, index.encode() + bytes(24))
    assert decoded is not None
    assert decoded.find_last_entry() == (latest, latest_offset)
    late_enough = [offset for offset, time in enumerate(times, start=700) if time >= target]
    found = decoded.lookup(target)
    assert not late_enough or found <= late_enough[0]
    # And it is as close as the entries allow: every record before it is too early.
    maxima = sorted({max(times[: number + 1]) for number in range(len(times))} - {-1})
    if target > 0 and bisect_right(maxima, target - 1) > 0:
        assert times[found - 700] == maxima[bisect_right(maxima, target - 1) - 1]
