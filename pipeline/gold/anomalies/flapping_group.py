"""Find groups that repeatedly become empty: they restart completely or do not stay up."""

from collections.abc import Iterable
from typing import Final

from pipeline.gold.anomalies.crowding import crowded
from pipeline.gold.group_records import EMPTIED, Row

TIMES: Final = 3
WITHIN_S: Final = 3600


def flapping_group(rebalances: Iterable[Row]) -> list[Row]:
    """Return periods in which a group became empty at least TIMES within WITHIN_S seconds. `amount`: the number of
    times. `rebalances` are the group's rows of `rebalance_stats` in log order.
    """
    events = [row for row in rebalances if row["kind"] == EMPTIED]
    return [
        row | {"detail": f"lost its last member {row['amount']} times"}
        for row in crowded(events, TIMES, WITHIN_S)
    ]
