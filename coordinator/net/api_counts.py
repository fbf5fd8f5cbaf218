"""How many requests of an API were answered, and how long that took."""

from bisect import bisect_left
from typing import Final

LATENCY_BOUNDS_NS: Final = tuple(
    int(seconds * 1e9)
    for seconds in (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 300)
)
"""Upper bounds of the latency histogram's buckets, nanoseconds; one more bucket follows for what is above."""

_FIRST_BOUND_NS: Final = LATENCY_BOUNDS_NS[0]


class ApiCounts:
    """What the metrics know of one API: answers by latency bucket, and the sum of the latencies."""

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def copy(self) -> "ApiCounts":
        """The counts as they are now."""
        copied = ApiCounts()
        copied.buckets = self.buckets.copy()
        copied.sum_ns = self.sum_ns
        return copied

    def add(self, latency_ns: int, count: int = 1) -> None:
        """Counts `count` answers that took `latency_ns` each."""
        if latency_ns <= _FIRST_BOUND_NS:
            self.buckets[0] += count
        else:
            self.buckets[bisect_left(LATENCY_BOUNDS_NS, latency_ns)] += count
        self.sum_ns += latency_ns * count
