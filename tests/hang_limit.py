"""Ends a test process that pytest-timeout cannot interrupt.

pytest-timeout interrupts a test with a signal, and Python handles signals between two bytecodes. A call into C
that never returns, such as a client library that waits for a thread of its own, is not interrupted, and neither
is a `finally` block that hangs after the first interruption. When a test has taken its limit and `GRACE_S` more,
this plugin prints the stacks of all threads and ends the process. pytest-xdist then reports that test as failed,
starts another process and continues with the tests that are left.
"""

import contextlib
import faulthandler
import os
from collections.abc import Iterator
from time import monotonic

import pytest
from pytest_timeout import Settings

GRACE_S = 120.0
"""For `finally` blocks and teardown after pytest-timeout has interrupted a test."""
_stderr: int | None = None
"""The standard error that the process started with; pytest captures file descriptor 2."""
_deadline: float | None = None
"""When the process ends, on the monotonic clock; None outside of tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error of the process, where the stacks are printed."""
    global _stderr
    capture = config.pluginmanager.get_plugin("capturemanager")
    if _stderr is None:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            _stderr = os.dup(2)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(settings: Settings) -> None:
    """Set the deadline of a test. None as result: pytest-timeout sets its own timer too."""
    _set_deadline(monotonic() + settings.timeout + GRACE_S)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> None:
    _set_deadline(None)


@contextlib.contextmanager
def hang_limit(limit_s: float) -> Iterator[None]:
    """Give the body a limit of its own in seconds; the time of the body does not count for the test around it."""
    outer, start = _deadline, monotonic()
    _set_deadline(start + limit_s + GRACE_S)
    try:
        yield
    finally:
        _set_deadline(None if outer is None else outer + monotonic() - start)


def _set_deadline(deadline: float | None) -> None:
    global _deadline
    _deadline = deadline
    if deadline is None or _stderr is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(max(deadline - monotonic(), 0.001), exit=True, file=_stderr)
