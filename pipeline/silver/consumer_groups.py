"""The silver tables of consumer groups (KIP-848): which record goes where."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.decode.rows import CONSUMER_GROUP
from pipeline.silver.schemas import (
    CONSUMER_MEMBERS,
    GROUP_EPOCHS,
    GROUP_EXPRESSIONS,
    MEMBER_EPOCHS,
    MEMBER_PARTITIONS,
)
from protocol.records.group_record_serde import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ServedRecordType,
)


def _records(rows: DataFrame, ingest_batch: int, names: dict[ServedRecordType, str]) -> DataFrame:
    """The records of some types, each with the name that `record` has for its type."""
    record = sf.lit(None)
    for kind, name in names.items():
        record = sf.when(sf.col("key_type") == kind.number, name).otherwise(record)
    found = rows.where(
        (sf.col("kind") == CONSUMER_GROUP) & sf.col("key_type").isin([kind.number for kind in names])
    )
    common = ("log_partition", "log_offset", "record_ts", "group", "tombstone", "value_version")
    return found.select(
        *common, "consumer.*", record.alias("record"), sf.lit(ingest_batch).alias("ingest_batch")
    )


def group_epochs(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Return the rows about whole groups: their epochs, target epochs, and (up to Kafka 4.0) topics."""
    names = {
        CONSUMER_GROUP_METADATA: "group",
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "target",
        CONSUMER_GROUP_PARTITION_METADATA: "topics",
    }
    return GROUP_EPOCHS.shape(_records(rows, ingest_batch, names).withColumnRenamed("done_ts", "computed_ts"))


def consumer_members(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Return the rows with the properties of members."""
    found = _records(rows, ingest_batch, {CONSUMER_GROUP_MEMBER_METADATA: "member"})
    renamed = {"topics": "subscribed_topics", "expression": "subscribed_expression"}
    return CONSUMER_MEMBERS.shape(found.withColumnsRenamed(renamed))


def _of_members(rows: DataFrame, ingest_batch: int) -> DataFrame:
    names = {
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "target",
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "current",
    }
    return _records(rows, ingest_batch, names)


def member_epochs(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Return the rows with target and current assignments of members."""

    def pending(one: Column) -> Column:
        return one["holding"] == "pending_revocation"

    partitions = sf.col("partitions")
    n_pending = sf.when(sf.col("record") == "current", sf.size(sf.filter(partitions, pending)))
    n_partitions = sf.size(sf.filter(partitions, lambda one: ~pending(one)))
    found = _of_members(rows, ingest_batch)
    found = found.withColumn("n_partitions", sf.when(partitions.isNotNull(), n_partitions))
    found = found.withColumn("n_pending_revocation", sf.when(partitions.isNotNull(), n_pending))
    return MEMBER_EPOCHS.shape(found)


def member_partitions(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """The partitions of each of these records."""
    found = _of_members(rows, ingest_batch).select("*", sf.explode("partitions").alias("one"))
    return MEMBER_PARTITIONS.shape(found.select("*", "one.*"))


def group_expressions(rows: DataFrame, ingest_batch: int) -> DataFrame:
    """Return the rows with the matches of regular expressions."""
    found = _records(rows, ingest_batch, {CONSUMER_GROUP_REGULAR_EXPRESSION: "expression"})
    return GROUP_EXPRESSIONS.shape(found.withColumnRenamed("done_ts", "resolved_ts"))
