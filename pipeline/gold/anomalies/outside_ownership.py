"""Commits for partitions that nobody of the generation owns.

While a group has members, the coordinator refuses commits of anyone else. A commit for a partition without an
owner therefore came from a member that did not own it, or through a transaction, which need not name a member.
Commits of one member for a partition of another leave no trace in the log.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.cells import of_commits
from pipeline.gold.fold import Fold, of_first, sums
from pipeline.gold.group_records import GROUP

_OF_THE_FIRST: Final = ("offset", "previous_offset", "previous_log_offset", "previous_member", "ts")


def _rows(cells: DataFrame) -> DataFrame:
    is_unowned = sf.col("n_owners").isNull() & sf.col("group_log_offset").isNotNull()
    return (
        of_commits(cells)
        .where(is_unowned)
        .select(
            *GROUP,
            "group_log_offset",
            "topic",
            "partition",
            sf.col("commits").alias("amount"),
            (sf.col("transactional_commits") > 0).alias("is_transactional"),
            sf.col("first_log_offset").alias("log_offset"),
            *(sf.col(f"first_{name}").alias(name) for name in ("offset", "ts")),
            *("previous_offset", "previous_log_offset", "previous_member"),
            sf.col("latest_ts").alias("until_ts"),
        )
    )


UNOWNED: Final = Fold(
    "unowned",
    (*GROUP, "group_log_offset", "topic", "partition"),
    _rows,
    lambda: [
        *sums("amount"),
        *(sf.max(name).alias(name) for name in ("is_transactional", "until_ts")),
        *of_first("log_offset", *_OF_THE_FIRST),
    ],
)
"""Commits for partitions that nobody owned, of groups that have records."""


def outside_ownership(unowned: DataFrame, group_generations: DataFrame, members: DataFrame) -> DataFrame:
    """One row for each group record and partition. `amount`: such commits; the evidence is the first. In: the fold
    UNOWNED, silver tables.

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
    detail = sf.when(
        sf.col("is_transactional"), "in a transaction, which need not come from a member"
    ).otherwise(
        sf.concat(sf.lit("by one of "), sf.col("n_members"), sf.lit(" members, none of which owned it"))
    )
    return anomaly("outside_ownership", unowned.join(judged, [*GROUP, "group_log_offset"]), detail=detail)
