"""Who commits, how often, and how much of it said nothing new."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.cells import COUNTERS, of_commits
from pipeline.gold.fold import Fold, of_first, of_last, sums
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


def _rows(cells: DataFrame) -> DataFrame:
    return of_commits(cells).select(
        *_CLIENT,
        "topic",
        "partition",
        *COUNTERS,
        sf.col("earliest_ts").alias("first_commit_ts"),
        sf.col("latest_ts").alias("last_commit_ts"),
        "first_log_offset",
        "last_log_offset",
    )


CLIENTS: Final = Fold(
    "clients",
    (*_CLIENT, "topic", "partition"),
    _rows,
    lambda: [
        *sums(*COUNTERS),
        *(column for name in ("first_commit_ts", "first_log_offset") for column in of_first(name)),
        *(column for name in ("last_commit_ts", "last_log_offset") for column in of_last(name)),
    ],
)


def commit_stats(clients: DataFrame) -> DataFrame:
    """By group and client: commits, and the share of them that repeated the offset before.

    In: the fold CLIENTS, which has a row for each partition: that makes them countable. Rows without a client hold
    the commits whose writer is not known.
    """
    minutes = (sf.unix_millis("last_commit_ts") - sf.unix_millis("first_commit_ts")) / 60_000
    per_client = (
        clients.groupBy(*_CLIENT)
        .agg(
            *sums(*COUNTERS),
            sf.count("*").alias("partitions"),
            *(sf.min(name).alias(name) for name in ("first_commit_ts", "first_log_offset")),
            *(sf.max(name).alias(name) for name in ("last_commit_ts", "last_log_offset")),
        )
        .withColumn("unmoved_share", sf.col("unmoved_commits") / sf.col("commits"))
        .withColumn("commits_per_minute", sf.when(minutes > 0, sf.col("commits") / minutes))
    )
    return COMMIT_STATS.shape(per_client)
