"""Summarise the problems of groups, a row for each kind and group, with start, amount and clients. The size is
bounded, whatever the size of the tables.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.causes import SECOND_STEP
from pipeline.gold.group_kinds import CONSUMER
from pipeline.gold.group_records import GROUP

MOST: Final = 100
MOST_CLIENTS: Final = 3
LOST: Final = "lost_messages"
IDLE: Final = "idle_members"
RESTLESS: Final = ("rebalance_storm", "flapping_group")
ABANDONED: Final = "abandoned_group"


def troubles(
    anomalies: DataFrame, summaries: DataFrame, rebalance_causes: DataFrame, members: DataFrame
) -> DataFrame:
    """Return at most MOST rows of each kind, the ones with the greatest amounts.

    Columns: `n`: the number of anomalies of the kind; `amount`: their total; `most`: the largest of them, and
    `detail`, `topic`, `partition`, `member` and `previous_offset` belong to it; `ts` and `until_ts`: the times of
    the first and the last; `clients`: the clients that joined and left a restless group most often, or the last
    clients of an abandoned group, as `name` and `n`; `n_clients` and `n_ids`: the numbers of clients and of their
    member ids.

    Args:
        anomalies: gold `anomalies`.
        summaries: the summaries of groups.
        rebalance_causes: gold `rebalance_causes`.
        members: gold `rebalance_stats`, for the member ids.
    """
    of_largest = (
        "detail",
        "topic",
        "partition",
        "member",
        "previous_offset",
        "log_offset",
        "previous_log_offset",
    )
    found = anomalies.groupBy("kind", *GROUP).agg(
        sf.count("*").alias("n"),
        sf.sum("amount").alias("amount"),
        sf.max("amount").alias("most"),
        *(sf.max_by(name, sf.coalesce("amount", sf.lit(0))).alias(name) for name in of_largest),
        sf.countDistinct("topic", "partition").alias("n_partitions"),
        sf.min("ts").alias("ts"),
        sf.max(sf.coalesce("until_ts", "ts")).alias("until_ts"),
    )
    every = [found, _lost(summaries), _idle(rebalance_causes)]
    united = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), every)
    place = sf.row_number().over(Window.partitionBy("kind").orderBy(sf.desc_nulls_last("amount"), "group"))
    few = united.withColumn("place", place).where(sf.col("place") <= MOST).drop("place")
    own = summaries.select(
        "group", "lag", "longest_pause_ms", "group_kind", sf.col("n_members").alias("n_now")
    )
    return few.join(own, "group", "left").join(
        _clients(few, rebalance_causes, members), ["kind", *GROUP], "left"
    )


def _lost(summaries: DataFrame) -> DataFrame:
    return summaries.where(sf.col("lost") > 0).select(
        sf.lit(LOST).alias("kind"),
        sf.lit(None).cast("int").alias("log_partition"),
        "group",
        sf.col("lost").alias("amount"),
        sf.lit(1).cast("bigint").alias("n"),
    )


def _idle(rebalance_causes: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*GROUP).orderBy(sf.desc("log_offset"))
    return (
        rebalance_causes.withColumn("place", sf.row_number().over(newest))
        .where((sf.col("place") == 1) & (sf.col("idle") > 0) & (sf.col("n_partitions") > 0))
        .select(
            sf.lit(IDLE).alias("kind"),
            *GROUP,
            sf.col("idle").cast("bigint").alias("amount"),
            sf.col("n_members").cast("bigint").alias("most"),
            sf.col("n_partitions").cast("bigint").alias("n_partitions"),
            sf.lit(1).cast("bigint").alias("n"),
            sf.col("record_ts").alias("ts"),
        )
    )


def _clients(found: DataFrame, rebalance_causes: DataFrame, members: DataFrame) -> DataFrame:
    """Return the clients of restless groups in the periods of their anomalies."""
    when = found.where(sf.col("kind").isin(ABANDONED, *RESTLESS)).select("kind", *GROUP, "ts", "until_ts")
    within = sf.col("record_ts").between(sf.col("ts"), sf.col("until_ts"))
    moved = rebalance_causes.where(sf.col("cause") != SECOND_STEP)
    named = (
        when.join(moved, list(GROUP))
        .where(within)
        .select("kind", *GROUP, sf.explode(sf.concat("came", "went", "came_back")).alias("name"))
        .groupBy("kind", *GROUP, "name")
        .agg(sf.count("*").alias("n"))
    )
    busiest = sf.row_number().over(Window.partitionBy("kind", *GROUP).orderBy(sf.desc("n"), "name"))
    clients = (
        named.withColumn("place", busiest)
        .groupBy("kind", *GROUP)
        .agg(
            sf.array_sort(
                sf.collect_list(sf.when(sf.col("place") <= MOST_CLIENTS, sf.struct("place", "name", "n")))
            ).alias("clients"),
            sf.count("*").alias("n_clients"),
        )
    )
    ids = (
        when.join(members.select(*GROUP, "record_ts", "joined_members", "left_members"), list(GROUP))
        .where(within)
        .select("kind", *GROUP, sf.explode(sf.concat("joined_members", "left_members")).alias("id"))
        .groupBy("kind", *GROUP)
        .agg(sf.countDistinct("id").alias("n_ids"))
    )
    return clients.join(ids, ["kind", *GROUP], "left")


def assignors(rebalance_causes: DataFrame) -> DataFrame:
    """Return the moves by assignor, ordered by the number of rebalances with known moves."""
    named = sf.when(sf.col("group_kind") == CONSUMER, "of the coordinator").otherwise(sf.col("protocol"))
    return (
        rebalance_causes.where(sf.col("moved").isNotNull() & (sf.col("n_members") > 0))
        .groupBy(sf.coalesce(named, sf.lit("?")).alias("assignor"))
        .agg(
            sf.count("*").alias("n"),
            sf.sum("n_partitions").alias("n_partitions"),
            sf.sum("moved").alias("moved"),
            sf.sum("needless").alias("needless"),
        )
        .orderBy(sf.desc("needless"), sf.desc("moved"), "assignor")
    )
