"""Durations, times, counts, lists and ranges as text."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import (
    format_count,
    format_duration,
    format_list,
    format_ranges,
    format_seconds,
    list_ranges,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (2_694, "2.69 s"),
        (9_994, "9.99 s"),
        (9_996, "10 s"),
        (44_999, "45 s"),
        (59_999, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_999, "1 h"),
        (5_400_000, "1 h 30 min"),
        (691_199_990, "8 d"),
        (93_600_000, "1 d 2 h"),
    ],
)
def test_a_duration_has_at_most_two_units(ms: int, text: str) -> None:
    assert format_duration(ms) == text


def test_a_duration_in_a_sentence_is_in_seconds() -> None:
    texts = [format_seconds(time_ms) for time_ms in (0, 340, 9_949, 10_000, 299_600)]
    assert texts == ["0.0 s", "0.3 s", "9.9 s", "10 s", "300 s"]


def test_a_time_has_milliseconds_unless_no_calendar_has_it() -> None:
    assert format_time_of_day(1_769_860_800_007).endswith(":00.007")
    assert format_time_of_day(2**80) == str(2**80)


def test_counts_and_lists() -> None:
    assert [format_count(number, "member") for number in (0, 1, 2)] == ["0 members", "1 member", "2 members"]
    assert format_list(["a", "b"], 2) == "a, b"
    assert format_list(["a", "b"], 9) == "a, b and 7 more"


def test_of_many_ranges_the_first_are_listed() -> None:
    assert format_ranges([7, 2, 0, 1, 1]) == "0-2 7"
    assert format_ranges(range(0, 30, 2)) == "0 2 4 6 8 10 12 14 16 18 20 22 and 3 more"


@given(st.lists(st.integers(0, 60)))
def test_ranges_have_exactly_the_numbers_and_are_apart(numbers: list[int]) -> None:
    ends = [tuple(map(int, text.split(".."))) for text in list_ranges(numbers, "..")]
    ranges = [range(each[0], each[-1] + 1) for each in ends]
    assert [number for each in ranges for number in each] == sorted(set(numbers))
    assert all(before.stop < after.start for before, after in itertools.pairwise(ranges))
