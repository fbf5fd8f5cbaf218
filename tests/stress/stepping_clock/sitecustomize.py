"""Make the wall clock of each Python process step back and forth, as a machine's does that is set again and again.

Python imports this module at its start where its folder is in PYTHONPATH. The processes of one machine share their
monotonic clock, so that all of them step at the same moment. `datetime.now` and programs in other languages keep
the true time.
"""

import time

PERIOD_S = 10.0
STEP_S = 3.0

_true_time_ns = time.time_ns


def find_step(monotonic_s: float) -> float:
    """Return the seconds that the wall clock is ahead at an instant of the monotonic clock."""
    return STEP_S * (int(monotonic_s / PERIOD_S) % 2)


def stepping_time_ns() -> int:
    """Return the nanoseconds since 1970 of the clock that steps."""
    return _true_time_ns() + int(find_step(time.monotonic()) * 1e9)


def stepping_time() -> float:
    """Return the seconds since 1970 of the clock that steps."""
    return stepping_time_ns() / 1e9


if __name__ == "sitecustomize":  # tests import it under its full name
    time.time_ns, time.time = stepping_time_ns, stepping_time
