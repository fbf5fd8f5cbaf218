"""Detection of growth and leftovers.

*Growth.* A least-squares line is fitted through the second half of the run. By then all bounded stores are full:
caches, fetch sessions, the producer table, logs at their retention. The growth of the line over that half is
bounded by a share of the mean:

- `memory_blocks`, the blocks that Python has allocated, follows the current load, since members come and go: by
  2 or 3 % from one sample to the next, by 0.5 % over a quarter of an hour.
- `rss_bytes`, with a C library that returns freed memory at once (`run.py`), hardly moves: 0.2 %.

The bounds are a multiple of the measured values without a leak. A leak of one kilobyte per connection, with more
than a thousand connections in that half, exceeds them.

*Leftovers.* After all clients are gone, the state equals the state before they came. Only the logs of the same
topics may have more segments.

*Violations.* No oracle has found a violation. Notices are about members that sleep and die.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.soak.probe import Sample

GROWTH: Final = {"memory_blocks": 0.02, "rss_bytes": 0.02}
"""By how much of its mean a quantity may grow in the second half of a run."""
MIN_SAMPLES: Final = 60
"""Below that many in the second half (five minutes) a line says nothing about growth."""

_EMPTY: Final = ("connections", "unanswered", "waiters", "answer_bytes", "request_bytes")
_AS_BEFORE: Final = ("tasks", "timers")
_DESCRIPTORS_AS_BEFORE: Final = ("socket", "deleted", "other")


def growth(samples: Sequence[Sample], what: str) -> float:
    """What the line through these samples gains from the first to the last, as a share of their mean."""
    times = [sample.at_s for sample in samples]
    values = [float(getattr(sample, what)) for sample in samples]
    mean_time, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - mean_time) ** 2 for time in times)
    slope = (
        sum((time - mean_time) * (value - mean) for time, value in zip(times, values, strict=True)) / spread
    )
    return slope * (times[-1] - times[0]) / mean


def second_half(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Of a run."""
    return samples[len(samples) // 2 :]


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return the quantities that grew in the second half of the run; none if the run is too short."""
    half = second_half(samples)
    if len(half) < MIN_SAMPLES:
        return []
    return [
        f"{what} grew by {grew:.1%} in the second half of the run, the bound is {bound:.0%}"
        for what, bound in GROWTH.items()
        if (grew := growth(half, what)) > bound
    ]


def left(before: Sample, after: Sample) -> list[str]:
    """Return the state after the departure of all clients that was absent before their start."""
    found = [f"{what}: {value} left" for what in _EMPTY if (value := getattr(after, what))]
    counts = {what: (getattr(before, what), getattr(after, what)) for what in _AS_BEFORE}
    for kind in _DESCRIPTORS_AS_BEFORE:
        counts[f"descriptors ({kind})"] = (before.descriptors[kind], after.descriptors[kind])
    found += [f"{what}: {was} before, {now} now" for what, (was, now) in counts.items() if now > was]
    return found


def violated(counts: Mapping[str, int]) -> list[str]:
    """Return the violations as reasons to fail. `counts` is the number of violations by oracle."""
    assert counts, "the daemon says nothing of its oracles"
    return [f"{oracle}: {count} violations" for oracle, count in sorted(counts.items()) if count]
