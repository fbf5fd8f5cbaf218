"""What each group has committed, as it stands at the end of the log."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.table import Table

LATEST_OFFSETS: Final = Table.declare(
    "latest_offsets",
    """
    log_partition int
    group string
    topic string
    partition int
    offset bigint
    leader_epoch int
    metadata string
    commit_ts timestamp
    expire_ts timestamp
    topic_id string
    log_offset bigint
    record_ts timestamp
    """,
)

_KEY: Final = ("log_partition", "group", "topic", "partition")


def latest_offsets(commits: DataFrame) -> DataFrame:
    """The last commit of every group and partition, but for those that a tombstone has removed since.

    In: silver `commits`. A hash aggregate finds the last log offset of each key and a semi join fetches its
    row: aggregating whole rows would make Spark sort.
    """
    last = commits.groupBy(*_KEY).agg(sf.max("log_offset").alias("log_offset"))
    rows = commits.join(
        last.select("log_partition", "log_offset"), ["log_partition", "log_offset"], "left_semi"
    )
    return LATEST_OFFSETS.shape(rows.where(~sf.col("tombstone")))
