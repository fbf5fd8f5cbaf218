"""From the rows of the source to the rows of the silver tables: pure functions from DataFrame to DataFrame."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.decode.rows import COMMIT, FINDING, GROUP, UNKNOWN
from pipeline.silver.schemas import (
    ASSIGNMENTS,
    COMMITS,
    GROUP_GENERATIONS,
    INGEST_FINDINGS,
    MEMBERS,
    UNKNOWN_RECORDS,
)


def commits(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Offset commits and their tombstones."""
    found = rows.where(sf.col("kind") == COMMIT)
    return COMMITS.shape(found.withColumn("ingest_batch", sf.lit(ingest_batch)))


def group_generations(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Records of classic groups and their tombstones."""
    found = rows.where(sf.col("kind") == GROUP).withColumn("n_members", sf.size("members"))
    has_members = sf.col("members").isNotNull()
    found = found.withColumn("n_members", sf.when(has_members, sf.col("n_members")))
    return GROUP_GENERATIONS.shape(found.withColumn("ingest_batch", sf.lit(ingest_batch)))


def _member_rows(rows: DataFrame, ingest_batch: int) -> DataFrame:
    found = rows.where(sf.col("kind") == GROUP)
    return found.select(
        "log_partition",
        "log_offset",
        "record_ts",
        "group",
        "generation",
        "leader",
        sf.explode("members").alias("member"),
        sf.lit(ingest_batch).alias("ingest_batch"),
    )


def members(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """The members of each group record, in its order."""
    found = _member_rows(rows, ingest_batch).select("*", "member.*")
    assigned = sf.col("assigned")
    found = found.withColumn("is_leader", sf.coalesce(sf.col("member_id") == sf.col("leader"), sf.lit(False)))
    found = found.withColumn("n_partitions", sf.when(assigned.isNotNull(), sf.size(assigned)))
    return MEMBERS.shape(found)


def assignments(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """The partitions of each member."""
    found = _member_rows(rows, ingest_batch)
    found = found.select("*", sf.col("member.member_id"), sf.explode("member.assigned").alias("one"))
    return ASSIGNMENTS.shape(found.select("*", "one.*"))


def unknown_records(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Records of other kinds."""
    found = rows.where(sf.col("kind") == UNKNOWN)
    return UNKNOWN_RECORDS.shape(found.withColumn("ingest_batch", sf.lit(ingest_batch)))


def ingest_findings(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Return the rows with findings in the log."""
    found = rows.where(sf.col("kind") == FINDING).select(
        sf.lit(ingest_batch).alias("ingest_batch"),
        sf.current_timestamp().alias("found_ts"),
        "log_partition",
        sf.col("finding").alias("kind"),
        sf.col("log_offset").alias("first_offset"),
        "last_offset",
        "path",
        "position",
        "detail",
    )
    return INGEST_FINDINGS.shape(found)
