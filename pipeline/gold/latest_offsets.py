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


def latest_offsets(last_commits: DataFrame) -> DataFrame:
    """The last commit of every group and partition, but for those that a tombstone has removed since.

    In: LAST_COMMITS of the whole history.
    """
    return LATEST_OFFSETS.shape(last_commits.where(~sf.col("tombstone")))
