"""Find consumer group members that revoke partitions slowly and so delay other members and the epoch.

A member that polls in time confirms a revocation in its next heartbeat. A longer time means a slow revocation
callback or a blocked processing loop. After its rebalance timeout the coordinator removes the member.
"""

from collections.abc import Iterable
from typing import Final

from pipeline.gold.anomalies.crowding import seconds_between
from pipeline.gold.group_records import Row

SLOW_S: Final = 30
_HOW: Final = {None: "are not revoked after", "revoked": "were revoked after"}


def slow_revocation(revocations: Iterable[Row], as_of_us: int) -> list[Row]:
    """Return one row for each revocation of at least SLOW_S seconds. `amount`: seconds. `revocations` are rows of
    `pipeline.gold.consumer_history.revocations`; `as_of_us` is the reference time.
    """
    found = []
    for row in revocations:
        until_us = as_of_us if row["until_ts"] is None else row["until_ts"]
        seconds = seconds_between(row["ts"], until_us)
        if seconds >= SLOW_S:
            how = _HOW.get(row["ended_by"], "were held until the member left or was removed, after")
            number = row["n_partitions"]
            detail = f"{number} partition{'' if number == 1 else 's'} {how} {seconds} s"
            found.append(row | {"until_ts": until_us, "amount": seconds, "detail": detail})
    return found
