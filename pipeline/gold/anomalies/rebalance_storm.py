"""Find series of rebalances: members that lose their sessions, or restart one by one."""

from collections.abc import Iterable
from typing import Final

from pipeline.gold.anomalies.crowding import crowded, seconds_between
from pipeline.gold.group_records import Row

REBALANCES: Final = 5
WITHIN_S: Final = 600


def rebalance_storm(rebalances: Iterable[Row]) -> list[Row]:
    """Return periods with at least REBALANCES generations with members in WITHIN_S seconds. `amount`: generations.
    `rebalances` are the group's rows of `rebalance_stats` in log order.
    """
    events = [row for row in rebalances if row["kind"] == "rebalance"]
    return [
        row | {"detail": f"{row['amount']} rebalances in {seconds_between(row['ts'], row['until_ts'])} s"}
        for row in crowded(events, REBALANCES, WITHIN_S)
    ]
