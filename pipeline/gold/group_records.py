"""The group records of the log, in order, and what each of them is.

Kafka writes a group record when a leader hands in an assignment, when the last member has gone, when a static
member takes over from its predecessor, and when a group comes into being; a tombstone when it is deleted.
Rebalances that never got an assignment leave no record, only a gap in the numbers of the generations. So the
record alone does not say what happened; its place in the row does:

    assigned  members hold partitions; with the generation of the record before, a static member was replaced
    emptied   nobody is left (the generation goes up)
    created   a new group: generation 0, protocol type "", nobody. No rebalance took place, and the numbers
              before it belong to another life of the group
    deleted   a tombstone

Records that stand next to each other with the same generation and kind make up a *run*. A run of `assigned`
or `emptied` records is one generation.

Source: Kafka's `GroupCoordinatorRecordHelpers`, `ClassicGroup`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

ASSIGNED: Final = "assigned"
EMPTIED: Final = "emptied"
CREATED: Final = "created"
DELETED: Final = "deleted"

GROUP: Final = ("log_partition", "group")


def identity(member_id: str = "member_id", group_instance_id: str = "group_instance_id") -> Column:
    """Who a member is across restarts: its instance id if it is static, else its member id."""
    return sf.coalesce(sf.col(group_instance_id), sf.col(member_id))


def group_records(group_generations: DataFrame) -> DataFrame:
    """Silver `group_generations` with, for each record, `kind`, `sequence` (its number in the group, from 1),
    `run` (the number of its run, from 1), `next_log_offset`, `next_ts` and `next_kind`."""
    order = Window.partitionBy(*GROUP).orderBy("log_offset")
    is_nameless = (sf.col("generation") == 0) & (sf.coalesce(sf.col("protocol_type"), sf.lit("")) == "")
    kind = (
        sf.when(sf.col("tombstone"), DELETED)
        .when(sf.col("n_members") > 0, ASSIGNED)
        .when(is_nameless, CREATED)
        .otherwise(EMPTIED)
    )
    is_continued = (
        (sf.lag("kind").over(order) == sf.col("kind"))
        & (sf.lag("generation").over(order) == sf.col("generation"))
        & sf.col("kind").isin(ASSIGNED, EMPTIED)
    )
    return (
        group_generations.withColumn("kind", kind)
        .withColumn("is_first", ~sf.coalesce(is_continued, sf.lit(False)))
        .withColumn("sequence", sf.row_number().over(order))
        .withColumn("run", sf.sum(sf.col("is_first").cast("int")).over(order))
        .withColumn("next_log_offset", sf.lead("log_offset").over(order))
        .withColumn("next_ts", sf.lead("record_ts").over(order))
        .withColumn("next_kind", sf.lead("kind").over(order))
        .drop("is_first")
    )
