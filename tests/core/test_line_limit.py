import pytest

from coordinator.core import clock
from coordinator.core.daemon_log import LINE_PERIOD_MS, MAX_KEYS, LogLineLimit


class Time:
    """A clock that is moved by hand."""

    now_ms = 1_000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clock, "monotonic_ms", lambda: time.now_ms)
    return time


def test_a_key_is_admitted_once_in_a_period_and_then_with_a_count(time: Time) -> None:
    limit = LogLineLimit()
    assert limit.admit("a", 1) == 1
    assert [limit.admit("a", 1) for _ in range(5)] == [0] * 5
    assert limit.admit("a", 2) == 1
    time.now_ms += LINE_PERIOD_MS - 1
    assert limit.admit("a", 1) == 0
    time.now_ms += 1
    assert limit.admit("a", 1) == 7
    assert limit.admit("a", 1) == 0


def test_beyond_the_bound_everything_else_counts_as_one(time: Time) -> None:
    limit = LogLineLimit()
    admitted = [limit.admit(number) for number in range(10 * MAX_KEYS)]
    assert sum(count > 0 for count in admitted) == MAX_KEYS + 1
    time.now_ms += LINE_PERIOD_MS
    assert limit.admit("new") == 1
    assert limit.admit(0) > 0


def test_what_is_kept_is_bounded_for_ever(time: Time) -> None:
    limit = LogLineLimit()
    for number in range(20 * MAX_KEYS):
        time.now_ms += 200
        limit.admit("x" * 1_000, number)
    assert len(limit._last_lines) <= MAX_KEYS + 1
