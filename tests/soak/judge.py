"""Whether something grew, and whether something is left.

*Grew.* A line is fitted (least squares) through the second half of the run: by then everything that is filled once
is full: caches, fetch sessions, the producers' table, logs as long as retention lets them become. What the line
gains over that half has a bound, as a share of the mean:

- `memory_blocks`, what Python has given out, follows the load of the moment, since members come and go: by two or
  three in a hundred from one look to the next, by half of one in a hundred over a quarter of an hour.
- `rss_bytes`, with a C library that gives back at once what is freed (`run.py`), hardly moves: two in a thousand.

The bounds are some times what was measured where nothing leaks. A leak of a kilobyte for each connection, of which
there are more than a thousand in that half, is beyond them.

*Left.* When everybody is gone, there is what there was before anybody came, but for the logs: those of the same
topics, whose segments may have become more.

*Violated.* No oracle has found a violation. Their notices are about members that sleep and die.
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
    """What grew in the second half of the run; nothing is said about one that is too short."""
    half = second_half(samples)
    if len(half) < MIN_SAMPLES:
        return []
    return [
        f"{what} grew by {grew:.1%} in the second half of the run, the bound is {bound:.0%}"
        for what, bound in GROWTH.items()
        if (grew := growth(half, what)) > bound
    ]


def left(before: Sample, after: Sample) -> list[str]:
    """What is there after everybody has gone that was not there before anybody came."""
    found = [f"{what}: {value} left" for what in _EMPTY if (value := getattr(after, what))]
    counts = {what: (getattr(before, what), getattr(after, what)) for what in _AS_BEFORE}
    for kind in _DESCRIPTORS_AS_BEFORE:
        counts[f"descriptors ({kind})"] = (before.descriptors[kind], after.descriptors[kind])
    found += [f"{what}: {was} before, {now} now" for what, (was, now) in counts.items() if now > was]
    return found


def violated(counts: Mapping[str, int]) -> list[str]:
    """Return the violations as reasons to fail. In: the number of violations by oracle."""
    assert counts, "the daemon says nothing of its oracles"
    return [f"{oracle}: {count} violations" for oracle, count in sorted(counts.items()) if count]
