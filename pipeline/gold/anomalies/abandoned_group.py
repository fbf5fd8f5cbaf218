"""A group that nobody is in any more, while what it should read goes on: its lag grows and nobody works it off."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import EMPTIED, GROUP


def abandoned_group(
    rebalance_stats: DataFrame, progress: DataFrame, lag: DataFrame, as_of: Column
) -> DataFrame:
    """One row for each group that has been empty since some time, and is further behind now than then. `ts`: since
    when; `amount`: messages that it is behind now; `previous_offset`: how many it was behind then.

    In: gold tables; what counts as now. How far it was behind then is known to a step of `progress`.
    """
    newest = Window.partitionBy(*GROUP).orderBy(sf.desc("log_offset"))
    empty = (
        rebalance_stats.withColumn("place", sf.row_number().over(newest))
        .where((sf.col("place") == 1) & (sf.col("kind") == EMPTIED) & sf.col("ended_by").isNull())
        .select(*GROUP, "record_ts", "generation", "log_offset", "left_members")
    )
    now = lag.groupBy(*GROUP).agg(sf.sum("lag").alias("amount")).where(sf.col("amount") > 0)
    steps = progress.where(sf.col("lag").isNotNull()).select(*GROUP, "topic", "step_ts", "lag")
    then = (
        empty.join(steps, list(GROUP))
        .where(sf.col("step_ts") <= sf.col("record_ts"))
        .groupBy(*GROUP, "topic")
        .agg(sf.max_by("lag", "step_ts").alias("lag"))
        .groupBy(*GROUP)
        .agg(sf.sum("lag").alias("before"))
    )
    found = (
        empty.join(now, list(GROUP))
        .join(then, list(GROUP), "left")
        .withColumn("before", sf.coalesce("before", sf.lit(0)))
        .where(sf.col("amount") > sf.col("before"))
    )
    minutes = ((sf.unix_millis(as_of) - sf.unix_millis("record_ts")) / 60_000).cast("bigint")
    detail = sf.concat(
        sf.lit("no member for "), minutes, sf.lit(" min; lag rose from "), "before", sf.lit(" to "), "amount"
    )
    return anomaly(
        "abandoned_group",
        found,
        ts="record_ts",
        until_ts=as_of,
        detail=detail,
        previous_offset="before",
        previous_member=sf.try_element_at("left_members", sf.lit(-1)),
        group_log_offset="log_offset",
    )
