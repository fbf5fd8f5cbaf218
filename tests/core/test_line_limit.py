import pytest

from coordinator.core import clock
from coordinator.core.daemon_log import (
    ADDRESS_PERIOD_MS,
    LINE_PERIOD_MS,
    LINES_PER_PERIOD,
    MAX_KEYS,
    AddressLineLimit,
    LogLineLimit,
)


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


def test_only_the_periodic_summary_ends_a_period_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a line just before the summary would end it, too, and an address would get twice the lines."""
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)
    limit = AddressLineLimit()
    assert all(limit.admit_line("/10.0.0.1") for _ in range(LINES_PER_PERIOD))
    now_ns += (ADDRESS_PERIOD_MS + 1) * 1_000_000
    assert not limit.admit_line("/10.0.0.1")
    limit.log_summary()
    assert limit.admit_line("/10.0.0.1")
