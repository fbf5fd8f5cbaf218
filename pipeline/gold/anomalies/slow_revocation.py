"""A member of a consumer group that is slow to give partitions back: others wait for them, and the epoch does.

A member that polls in time gives back at its next heartbeat. What takes longer is a long revocation callback, or a
processing loop that does not come around; after its rebalance timeout a member is removed.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly

SLOW_S: Final = 30


def slow_revocation(revocations: DataFrame, as_of: Column) -> DataFrame:
    """One row for each time that took SLOW_S or longer. `amount`: seconds. In: as `consumer_history` has them."""
    until = sf.coalesce("until_ts", as_of)
    seconds = ((sf.unix_millis(until) - sf.unix_millis("ts")) / 1000).cast("bigint")
    how = (
        sf.when(sf.col("ended_by").isNull(), " have not been given back for ")
        .when(sf.col("ended_by") == "revoked", " were given back after ")
        .otherwise(" were held until the member left or was removed, after ")
    )
    n = sf.col("n_partitions")
    detail = sf.concat(n, sf.when(n == 1, " partition").otherwise(" partitions"), how, seconds, sf.lit(" s"))
    slow = revocations.where(seconds >= SLOW_S)
    return anomaly("slow_revocation", slow, until_ts=until, amount=seconds, detail=detail)
