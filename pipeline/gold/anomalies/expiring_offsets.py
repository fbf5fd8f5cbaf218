"""Offsets that the coordinator is about to forget: who comes back later begins where auto.offset.reset says.

When an offset expires follows Kafka: a time that the commit itself carries; of a group without members, the
retention after it became empty; of a group that never had members, after the commit; of a consumer group with
members, after the commit, but only for topics that nobody subscribes to, and so for one of KIP-848 with members or
without. Other offsets do not expire.

Source: KIP-211, Kafka's `OffsetExpirationCondition`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import ASSIGNED, CREATED, EMPTIED, GROUP, group_records

WARN_S: Final = 86400
_CONSUMER: Final = "consumer group"


def _standing(group_generations: DataFrame, members: DataFrame, consumer_standing: DataFrame) -> DataFrame:
    """How each group stands at the end, of whichever kind it is then."""
    classic = _classic_standing(group_generations, members)
    consumer = consumer_standing.withColumns({"state": sf.lit(_CONSUMER), "is_simple": sf.lit(False)})
    latest = Window.partitionBy(*GROUP).orderBy(sf.desc("group_log_offset"))
    return (
        classic.unionByName(consumer, allowMissingColumns=True)
        .withColumn("place", sf.row_number().over(latest))
        .where(sf.col("place") == 1)
        .drop("place")
    )


def _classic_standing(group_generations: DataFrame, members: DataFrame) -> DataFrame:
    """How each group stands at the end: the last of its records, and the topics subscribed there."""
    last = group_records(group_generations).where(sf.col("next_log_offset").isNull())
    topics = members.groupBy("log_partition", "log_offset").agg(
        sf.flatten(sf.collect_list("subscribed_topics")).alias("topics"),
        sf.max(sf.col("subscribed_topics").isNull()).alias("is_unreadable"),
    )
    return last.join(topics, ["log_partition", "log_offset"], "left").select(
        *GROUP,
        sf.col("log_offset").alias("group_log_offset"),
        sf.col("kind").alias("state"),
        "state_ts",
        "generation",
        sf.when((sf.col("protocol_type") == "consumer") & ~sf.col("is_unreadable"), sf.col("topics")).alias(
            "topics"
        ),
        (sf.coalesce("protocol_type", sf.lit("")) == "").alias("is_simple"),
    )


def expiring_offsets(
    latest_offsets: DataFrame,
    group_generations: DataFrame,
    members: DataFrame,
    consumer_standing: DataFrame,
    retention_minutes: int,
    as_of: Column,
) -> DataFrame:
    """One row for each group and topic with offsets that expire within a day of `as_of`, or should have.
    `amount`: its partitions; `until_ts`: the first expiry.

    In: gold `latest_offsets`, silver tables, `consumer_standing`, `offsets.retention.minutes` of the cluster.
    """
    state = sf.col("state")
    base = (
        sf.when(state.isNull() | state.isin("deleted") | sf.col("is_simple"), sf.col("commit_ts"))
        .when(state.isin(EMPTIED, CREATED), sf.coalesce("state_ts", "commit_ts"))
        .when(
            state.isin(ASSIGNED, _CONSUMER) & ~sf.array_contains("topics", sf.col("topic")),
            sf.col("commit_ts"),
        )
    )
    retention = sf.make_interval(mins=sf.lit(retention_minutes))
    expires = sf.when(base.isNotNull(), sf.coalesce("expire_ts", base + retention))
    why = (
        sf.when(sf.col("expire_ts").isNotNull(), "the commit itself says when")
        .when(state.isin(ASSIGNED, _CONSUMER), "no member subscribes to the topic")
        .when(state.isin(EMPTIED, CREATED) & ~sf.col("is_simple"), "the group has no members")
        .otherwise("the group never had members")
    )
    due = (
        latest_offsets.join(_standing(group_generations, members, consumer_standing), list(GROUP), "left")
        .withColumn("expires_ts", expires)
        .withColumn("detail", why)
        .where(sf.col("expires_ts") <= as_of + sf.make_interval(secs=sf.lit(WARN_S)))
        .groupBy(*GROUP, "topic", "detail", "group_log_offset", "generation")
        .agg(
            sf.count("*").alias("amount"),
            sf.min("expires_ts").alias("until_ts"),
            sf.min_by("log_offset", "expires_ts").alias("log_offset"),
            sf.min_by("partition", "expires_ts").alias("partition"),
            sf.min_by("offset", "expires_ts").alias("offset"),
            sf.min_by("commit_ts", "expires_ts").alias("ts"),
        )
    )
    return anomaly("expiring_offsets", due)
