"""Numbers, times and names as the report shows them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.words import cut, duration, length, listed, number, share, shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"), (0, "0 ms"), (0.25, "250 ms"), (1.5, "1.5 s"), (59, "59 s"), (60, "1 min"),
        (200, "3 min 20 s"), (3600, "1 h"), (3605, "1 h"), (90000, "1 d 1 h"), (31536000, "365 d"),
        (-200, "-3 min 20 s"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_numbers() -> None:
    assert [number(value) for value in (None, 0, 1234567, 0.5, 1234.5, 3.0)] == [
        "—", "0", "1,234,567", "0.50", "1,234", "3",
    ]  # fmt: skip


def test_shares_never_round_to_all_or_nothing() -> None:
    assert [share(part, 1000) for part in (0, 1, 500, 999, 1000)] == [
        "0 %", "under 1 %", "50 %", "over 99 %", "100 %",
    ]  # fmt: skip
    assert share(0, 0) == "0 %"


def test_lists() -> None:
    assert [listed(list("abcde")[:n]) for n in (1, 2, 3, 5)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 2 more",
    ]


def test_a_moment_has_no_length() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert length(now, now) == "a single moment"
    assert length(now, now + timedelta(seconds=2)) == "2 s"


@given(st.text(max_size=80), st.integers(8, 40))
def test_a_name_is_shown_on_one_line_and_no_longer_than_asked(name: str, length: int) -> None:
    text = cut(name, length)
    assert 0 < len(text) <= max(length, 2)
    assert text.isprintable()
    assert shown(name).isprintable()


def test_distinct_short_names_stay_distinct() -> None:
    assert shown("a\u202eb") == "a\\u202eb"
    assert shown("") == '""'
    assert shown("日本") == "日本"
