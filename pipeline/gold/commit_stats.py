"""Who commits, how often, and how much of it said nothing new."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.velocity import counters
from pipeline.table import Table

COMMIT_STATS: Final = Table.declare(
    "commit_stats",
    """
    log_partition int
    group string
    client_id string
    commits bigint
    unmoved_commits bigint
    unmoved_share double
    rewinds bigint
    transactional_commits bigint
    partitions bigint
    first_commit_ts timestamp
    last_commit_ts timestamp
    commits_per_minute double
    first_log_offset bigint
    last_log_offset bigint
    """,
)

_CLIENT: Final = ("log_partition", "group", "client_id")


def commit_stats(history: DataFrame) -> DataFrame:
    """By group and client: commits, and the share of them that repeated the offset before.

    In: the commit history. Rows without a client hold the commits whose writer is not known. Partitions are
    counted in two steps, as counting distinct ones at once would expand every row.
    """
    per_partition = (
        history.where(~sf.col("tombstone"))
        .groupBy(*_CLIENT, "topic", "partition")
        .agg(
            *counters(),
            sf.min("commit_ts").alias("first_commit_ts"),
            sf.max("commit_ts").alias("last_commit_ts"),
            sf.min("log_offset").alias("first_log_offset"),
            sf.max("log_offset").alias("last_log_offset"),
        )
    )
    minutes = (sf.unix_millis("last_commit_ts") - sf.unix_millis("first_commit_ts")) / 60_000
    per_client = (
        per_partition.groupBy(*_CLIENT)
        .agg(
            *(
                sf.sum(name).alias(name)
                for name in ("commits", "unmoved_commits", "rewinds", "transactional_commits")
            ),
            sf.count("*").alias("partitions"),
            *(sf.min(name).alias(name) for name in ("first_commit_ts", "first_log_offset")),
            *(sf.max(name).alias(name) for name in ("last_commit_ts", "last_log_offset")),
        )
        .withColumn("unmoved_share", sf.col("unmoved_commits") / sf.col("commits"))
        .withColumn("commits_per_minute", sf.when(minutes > 0, sf.col("commits") / minutes))
    )
    return COMMIT_STATS.shape(per_client)
