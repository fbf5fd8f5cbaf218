"""Commits for partitions that nobody of the generation owns.

While a group has members, the coordinator refuses commits of anyone else. A commit for a partition without an
owner therefore came from a member that did not own it, or through a transaction, which need not name a member.
Commits of one member for a partition of another leave no trace in the log.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import GROUP


def outside_ownership(history: DataFrame, group_generations: DataFrame, members: DataFrame) -> DataFrame:
    """One row for each group record and partition. `amount`: such commits; the evidence is the first.

    Only records are judged whose assignments can all be read: those of consumers.
    """
    readable = (
        members.groupBy("log_partition", "log_offset")
        .agg(sf.max(sf.col("n_partitions").isNull()).alias("is_unreadable"))
        .where(~sf.col("is_unreadable"))
        .select("log_partition", sf.col("log_offset").alias("group_log_offset"))
    )
    records = group_generations.where((sf.col("protocol_type") == "consumer") & (sf.col("n_members") > 0))
    judged = records.select(
        *GROUP, sf.col("log_offset").alias("group_log_offset"), "generation", "n_members"
    ).join(readable, ["log_partition", "group_log_offset"], "left_semi")
    commits = (
        history.where(~sf.col("tombstone") & sf.col("n_owners").isNull())
        .groupBy(*GROUP, "group_log_offset", "topic", "partition")
        .agg(
            sf.count("*").alias("amount"),
            sf.max(sf.col("producer_id").isNotNull()).alias("is_transactional"),
            sf.min("log_offset").alias("log_offset"),
            sf.min_by("offset", "log_offset").alias("offset"),
            sf.min_by("previous_offset", "log_offset").alias("previous_offset"),
            sf.min_by("previous_log_offset", "log_offset").alias("previous_log_offset"),
            sf.min_by("previous_member", "log_offset").alias("previous_member"),
            sf.min_by("commit_ts", "log_offset").alias("ts"),
            sf.max("commit_ts").alias("until_ts"),
        )
    )
    detail = sf.when(
        sf.col("is_transactional"), "in a transaction, which need not come from a member"
    ).otherwise(
        sf.concat(sf.lit("by one of "), sf.col("n_members"), sf.lit(" members, none of which owned it"))
    )
    return anomaly("outside_ownership", commits.join(judged, [*GROUP, "group_log_offset"]), detail=detail)
