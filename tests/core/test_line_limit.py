import pytest

from coordinator import clock
from coordinator.server.line_limit import MAX_KEYS, PERIOD_MS, LineLimit


class Time:
    """A clock that is moved by hand."""

    now_ms = 1_000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clock, "monotonic_ms", lambda: time.now_ms)
    return time


def test_a_key_is_admitted_once_in_a_period_and_then_with_a_count(time: Time) -> None:
    limit = LineLimit()
    assert limit.admit("a", 1) == 1
    assert [limit.admit("a", 1) for _ in range(5)] == [0] * 5
    assert limit.admit("a", 2) == 1
    time.now_ms += PERIOD_MS - 1
    assert limit.admit("a", 1) == 0
    time.now_ms += 1
    assert limit.admit("a", 1) == 7
    assert limit.admit("a", 1) == 0


def test_beyond_the_bound_everything_else_counts_as_one(time: Time) -> None:
    limit = LineLimit()
    admitted = [limit.admit(number) for number in range(10 * MAX_KEYS)]
    assert sum(count > 0 for count in admitted) == MAX_KEYS + 1
    time.now_ms += PERIOD_MS
    assert limit.admit("new") == 1
    assert limit.admit(0) > 0


def test_what_is_kept_is_bounded_for_ever(time: Time) -> None:
    limit = LineLimit()
    for number in range(20 * MAX_KEYS):
        time.now_ms += 200
        limit.admit("x" * 1_000, number)
    assert len(limit._told) <= MAX_KEYS + 1
