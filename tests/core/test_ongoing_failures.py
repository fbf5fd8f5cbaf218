"""One line a minute for what a disk, or the system, refuses; tests/hostile/test_full_disk.py has a daemon do it."""

import errno
import logging

import pytest

from coordinator import clock
from coordinator.ongoing_failures import PERIOD_MS, OngoingFailures
from storage.errors import AppendFailed


class Time:
    """A clock that is moved by hand."""

    now_ms = 1_000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(clock, "monotonic_ms", lambda: time.now_ms)
    return time


def refused(path: str, number: int = errno.ENOSPC) -> AppendFailed:
    error = AppendFailed(path, "cannot append")
    error.__cause__ = OSError(number, "refused")
    return error


def test_one_reason_has_one_line_a_minute_which_counts_the_others(time: Time) -> None:
    failures = OngoingFailures("LogManager")
    assert failures.failed("a", refused("a.log")) == 1
    assert [failures.failed(name, refused(f"{name}.log")) for name in "abcab"] == [0] * 5
    assert failures.counted(OSError(errno.ENOSPC, "a checkpoint")) == 0
    assert failures.failed("a", refused("a.log", errno.EIO)) == 1
    time.now_ms += PERIOD_MS
    assert failures.failed("b", refused("b.log")) == 7
    assert failures.failed("b", refused("b.log")) == 0
    assert failures.count == 10
    assert failures.reason("b") == "b.log: cannot append"


def test_what_had_a_line_has_one_when_it_is_over(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failures = OngoingFailures("LogManager")
    for name in "abb":
        failures.failed(name, refused(name))
    time.now_ms += 2_000
    for name in "abc":
        failures.is_over(name)
    assert [record.getMessage() for record in caplog.records] == [
        "a is in order again after 2.0 s and 1 failures"
    ]
    assert not failures
    assert failures.failed("a", refused("a")) == 0, "the same minute"
