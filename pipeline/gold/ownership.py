"""Which member held which partition, from when to when."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.group_records import ASSIGNED, GROUP, group_records, identity
from pipeline.table import Table

OWNERSHIP: Final = Table.declare(
    "ownership",
    """
    log_partition int
    group string
    topic string
    partition int
    member string
    member_id string
    group_instance_id string
    client_id string
    client_host string
    from_ts timestamp
    to_ts timestamp
    from_generation int
    to_generation int
    ended_by string
    from_log_offset bigint
    to_log_offset bigint
    """,
)

_HOLDING: Final = (*GROUP, "topic", "partition", "member")


def ownership(
    group_generations: DataFrame, members: DataFrame, assignments: DataFrame, of_consumer_groups: DataFrame
) -> DataFrame:
    """One row for each unbroken stretch of group records that give a partition to the same member.

    In: silver tables, `consumer_ownership`. A holding begins with its first record and ends with the
    first record that no longer has it. A static member is the same member under each of its
    member ids; the row names the first.
    """
    records = group_records(group_generations).select(
        *GROUP, "log_offset", "record_ts", "generation", "sequence", "next_log_offset", "next_ts", "next_kind"
    )
    who = members.select(
        "log_partition", "log_offset", "member_id", "group_instance_id", "client_id", "client_host"
    ).withColumn("member", identity())
    held = (
        assignments.select(*GROUP, "log_offset", "member_id", "topic", "partition")
        .join(who, ["log_partition", "log_offset", "member_id"])
        .join(records, [*GROUP, "log_offset"])
    )
    order = Window.partitionBy(*_HOLDING).orderBy("log_offset")
    stretches = (
        held.withColumn("stretch", sf.col("sequence") - sf.row_number().over(order))
        .groupBy(*_HOLDING, "stretch")
        .agg(
            *(
                sf.min_by(name, "log_offset").alias(name)
                for name in ("member_id", "group_instance_id", "client_id", "client_host")
            ),
            sf.min_by("record_ts", "log_offset").alias("from_ts"),
            sf.max_by("next_ts", "log_offset").alias("to_ts"),
            sf.min_by("generation", "log_offset").alias("from_generation"),
            sf.max_by("generation", "log_offset").alias("to_generation"),
            sf.max_by("next_kind", "log_offset").alias("ended_by"),
            sf.min("log_offset").alias("from_log_offset"),
            sf.max_by("next_log_offset", "log_offset").alias("to_log_offset"),
        )
        .withColumn(
            "ended_by", sf.when(sf.col("ended_by") == ASSIGNED, "reassigned").otherwise(sf.col("ended_by"))
        )
    )
    return OWNERSHIP.shape(stretches.drop("stretch").unionByName(of_consumer_groups))
