"""A client that goes at a regular distance: the sign of `max.poll.interval.ms`.

A consumer that works longer on what one poll gave than that time leaves by itself, comes back when it is done, and
works on the same messages again. People and schedulers restart less regularly, and not only one client.
"""

from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Final

from pipeline.gold.group_records import Row, group_key

TIMES: Final = 4
"""It takes so many to see that they are regular."""

LEAST_S: Final = 5
MOST_SPREAD: Final = 0.15
"""Standard deviation of the distances, to their mean."""


def regular_leaving(causes: Iterable[Row]) -> list[Row]:
    """Return one row for each client that went, or came back under another member id, TIMES or more at much
    the same distance. `amount`: the distance in seconds; `member`: the client id and host.

    In: the rows of a group of `rebalance_causes`, in log order.
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
    """Return the nearest whole number of seconds, which are not negative."""
    return int(seconds + 0.5)
