"""Which protocol a group followed from when to when: classic, or that of consumer groups (KIP-848).

A group that changes its kind has the tombstone of the one and the first record of the other written in one turn of
the coordinator, so at one time. A group that was deleted and came into being again later has not been migrated.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.group_records import DELETED, GROUP
from pipeline.table import Table

GROUP_KINDS: Final = Table.declare(
    "group_kinds",
    """
    log_partition int
    group string
    kind string
    from_ts timestamp
    to_ts timestamp
    migrated_from string
    ended_by string
    from_log_offset bigint
    to_log_offset bigint
    """,
)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MIGRATED: Final = "migrated"


def group_kinds(group_generations: DataFrame, group_epochs: DataFrame) -> DataFrame:
    """One row for each unbroken stretch of one kind, in one life of a group. In: silver tables."""
    columns = (*GROUP, "log_offset", "record_ts", "tombstone")
    records = (
        group_generations.select(*columns)
        .withColumn("kind", sf.lit(CLASSIC))
        .union(group_epochs.where("record = 'group'").select(*columns).withColumn("kind", sf.lit(CONSUMER)))
    )
    order = Window.partitionBy(*GROUP).orderBy("log_offset")
    is_first = (
        sf.lag("tombstone", 1, True).over(order) | (sf.lag("kind").over(order) != sf.col("kind"))
    ) & ~sf.col("tombstone")
    end = sf.when(sf.col("tombstone"), sf.struct("log_offset", "record_ts"))
    lives = (
        records.withColumn("is_first", is_first)
        .withColumn("life", sf.sum(sf.col("is_first").cast("int")).over(order))
        .where(sf.col("life") > 0)
        .groupBy(*GROUP, "life")
        .agg(
            sf.min_by("kind", "log_offset").alias("kind"),
            sf.min_by("record_ts", "log_offset").alias("from_ts"),
            sf.min("log_offset").alias("from_log_offset"),
            sf.min(end).alias("end"),
        )
    )
    lived = Window.partitionBy(*GROUP).orderBy("life")
    next_ts, next_kind = (sf.lead(name).over(lived) for name in ("from_ts", "kind"))
    before, ended_before = sf.lag("kind").over(lived), sf.lag("end.record_ts").over(lived)
    has_changed = next_kind != sf.col("kind")
    is_migrated = has_changed & (sf.col("end").isNull() | (sf.col("end.record_ts") == next_ts))
    was_migrated = (before != sf.col("kind")) & (ended_before.isNull() | (ended_before == sf.col("from_ts")))
    return GROUP_KINDS.shape(
        lives.withColumn("to_ts", sf.coalesce("end.record_ts", next_ts))
        .withColumn("migrated_from", sf.when(was_migrated, before))
        .withColumn("ended_by", sf.when(is_migrated, MIGRATED).when(sf.col("to_ts").isNotNull(), DELETED))
        .withColumn("to_log_offset", sf.coalesce("end.log_offset", sf.lead("from_log_offset").over(lived)))
    )
