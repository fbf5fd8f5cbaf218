"""A client that goes at a regular distance: the sign of `max.poll.interval.ms`.

A consumer that works longer on what one poll gave than that time leaves by itself, comes back when it is done, and
works on the same messages again. People and schedulers restart less regularly, and not only one client.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import GROUP

TIMES: Final = 4
"""It takes so many to see that they are regular."""

LEAST_S: Final = 5
MOST_SPREAD: Final = 0.15
"""Standard deviation of the distances, to their mean."""


def regular_leaving(rebalance_causes: DataFrame) -> DataFrame:
    """One row for each client that went, or came back under another member id, TIMES or more at much the same
    distance. `amount`: the distance in seconds; `member`: the client id and host. In: gold `rebalance_causes`."""
    gone = rebalance_causes.select(
        *GROUP,
        "record_ts",
        "generation",
        "log_offset",
        sf.explode(sf.array_distinct(sf.concat("went", "came_back"))).alias("member"),
    )
    order = Window.partitionBy(*GROUP, "member").orderBy("log_offset")
    ms = sf.unix_millis("record_ts") - sf.unix_millis(sf.lag("record_ts").over(order))
    found = (
        gone.withColumn("ms", ms)
        .groupBy(*GROUP, "member")
        .agg(
            sf.count("*").alias("n"),
            sf.avg("ms").alias("mean_ms"),
            sf.stddev_pop("ms").alias("spread_ms"),
            sf.min_by("record_ts", "log_offset").alias("ts"),
            sf.max_by("record_ts", "log_offset").alias("until_ts"),
            sf.max_by("generation", "log_offset").alias("generation"),
            sf.min("log_offset").alias("previous_log_offset"),
            sf.max("log_offset").alias("log_offset"),
        )
        .where(
            (sf.col("n") >= TIMES)
            & (sf.col("mean_ms") >= LEAST_S * 1000)
            & (sf.col("spread_ms") <= MOST_SPREAD * sf.col("mean_ms"))
        )
    )
    seconds = sf.round(sf.col("mean_ms") / 1000).cast("bigint")
    detail = sf.concat(sf.lit("went "), "n", sf.lit(" times, every "), seconds, sf.lit(" s"))
    return anomaly("regular_leaving", found, amount=seconds, detail=detail)
