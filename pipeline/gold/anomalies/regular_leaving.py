"""Find clients that leave at regular intervals, a symptom of `max.poll.interval.ms`.

A consumer that processes one poll for longer than that leaves the group, rejoins when it is done, and processes the
same records again. People and schedulers restart clients less regularly, and not only one of them.
"""

from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Final

from pipeline.gold.group_records import Row, group_key

TIMES: Final = 4
"""The departures needed to detect a regular interval."""

LEAST_S: Final = 5
MOST_SPREAD: Final = 0.15
"""The maximum ratio of the standard deviation of the intervals to their mean."""


def regular_leaving(causes: Iterable[Row]) -> list[Row]:
    """Return one row for each client that left, or returned under another member id, at least TIMES at regular
    intervals. `amount`: the interval in seconds; `member`: the client id and host. `causes` are the group's rows of
    `rebalance_causes` in log order.
    """
    gone: dict[str, list[Row]] = {}
    for row in causes:
        for client in dict.fromkeys([*row["went"], *row["came_back"]]):
            gone.setdefault(client, []).append(row)
    found = []
    for client, rows in gone.items():
        mean_s = _regular_distance_s(rows)
        if mean_s is not None:
            seconds = round_half_up(mean_s)
            found.append(
                group_key(rows[0])
                | {
                    "member": client,
                    "ts": rows[0]["record_ts"],
                    "until_ts": rows[-1]["record_ts"],
                    "generation": rows[-1]["generation"],
                    "previous_log_offset": rows[0]["log_offset"],
                    "log_offset": rows[-1]["log_offset"],
                    "amount": seconds,
                    "detail": f"went {len(rows)} times, every {seconds} s",
                }
            )
    return found


def _regular_distance_s(rows: list[Row]) -> float | None:
    if len(rows) < TIMES:
        return None
    times_ms = [row["record_ts"] // 1000 for row in rows]
    distances_ms = [after - before for before, after in pairwise(times_ms)]
    mean_ms = fmean(distances_ms)
    is_regular = mean_ms >= LEAST_S * 1000 and pstdev(distances_ms) <= MOST_SPREAD * mean_ms
    return mean_ms / 1000 if is_regular else None


def round_half_up(seconds: float) -> int:
    """Round a non-negative number of seconds half up."""
    return int(seconds + 0.5)
