"""One log line a minute for failures of a disk or of the system. tests/hostile/test_full_disk.py tests this in a
daemon."""

import errno
import logging

import pytest

from coordinator.core import clock
from coordinator.core.daemon_log import FAILURE_PERIOD_MS, OngoingFailures
from storage.storage_errors import AppendFailed


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
    assert failures.record_failure("a", refused("a.log")) == 1
    assert [failures.record_failure(name, refused(f"{name}.log")) for name in "abcab"] == [0] * 5
    assert failures.count_failure(OSError(errno.ENOSPC, "a checkpoint")) == 0
    assert failures.record_failure("a", refused("a.log", errno.EIO)) == 1
    time.now_ms += FAILURE_PERIOD_MS
    assert failures.record_failure("b", refused("b.log")) == 7
    assert failures.record_failure("b", refused("b.log")) == 0
    assert failures.count == 10
    assert failures.find_reason("b") == "b.log: cannot append"


def test_what_had_a_line_has_one_when_it_is_over(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    failures = OngoingFailures("LogManager")
    for name in "abb":
        failures.record_failure(name, refused(name))
    time.now_ms += 2_000
    for name in "abc":
        failures.record_recovery(name)
    assert [record.getMessage() for record in caplog.records] == ["a recovered after 2.0 s and 1 failures"]
    assert not failures
    assert failures.record_failure("a", refused("a")) == 0, "the same minute"
