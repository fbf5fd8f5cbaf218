"""One rebalance chases the next: members that do not keep their session, or restarts one by one."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.anomalies.crowding import crowded

REBALANCES: Final = 5
WITHIN_S: Final = 600


def rebalance_storm(rebalance_stats: DataFrame) -> DataFrame:
    """Stretches of REBALANCES or more generations with members in WITHIN_S seconds. `amount`: generations."""
    events = rebalance_stats.where(sf.col("kind") == "rebalance")
    seconds = _seconds_between("ts", "until_ts")
    detail = sf.concat(sf.col("amount"), sf.lit(" rebalances in "), seconds, sf.lit(" s"))
    return anomaly("rebalance_storm", crowded(events, REBALANCES, WITHIN_S), detail=detail)


def _seconds_between(start: str, end: str) -> Column:
    return ((sf.unix_millis(end) - sf.unix_millis(start)) / 1000).cast("bigint")
