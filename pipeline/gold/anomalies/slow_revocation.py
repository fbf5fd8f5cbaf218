"""A member of a consumer group that is slow to give partitions back: others wait for them, and the epoch does.

A member that polls in time gives back at its next heartbeat. What takes longer is a long revocation callback, or a
processing loop that does not come around; after its rebalance timeout a member is removed.
"""

from collections.abc import Iterable
from typing import Final

from pipeline.gold.anomalies.crowding import seconds_between
from pipeline.gold.group_records import Row

SLOW_S: Final = 30
_HOW: Final = {None: "have not been given back for", "revoked": "were given back after"}


def slow_revocation(revocations: Iterable[Row], as_of_us: int) -> list[Row]:
    """Return one row for each revocation that took SLOW_S or longer. `amount`: seconds.

    In: rows of `pipeline.gold.consumer_history.revocations`, the time that counts as now.
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
