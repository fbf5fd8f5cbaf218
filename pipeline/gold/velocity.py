"""How fast groups consume, by the minute."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.cells import COUNTERS, of_commits
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold, of_first, of_last, sums
from pipeline.table import Table

VELOCITY: Final = Table.declare(
    "velocity",
    """
    log_partition int
    group string
    topic string
    partition int
    minute timestamp
    commits bigint
    unmoved_commits bigint
    rewinds bigint
    transactional_commits bigint
    last_offset bigint
    advance bigint
    elapsed_s double
    offsets_per_s double
    first_log_offset bigint
    last_log_offset bigint
    """,
)


_COLUMNS: Final = (
    *PARTITION_OF_GROUP, "minute", *COUNTERS, "advance", "elapsed_ms", "first_log_offset", "last_log_offset",
    "last_offset",
)  # fmt: skip

MINUTES: Final = Fold(
    "minutes",
    (*PARTITION_OF_GROUP, "minute"),
    lambda cells: of_commits(cells).select(*_COLUMNS),
    lambda: [
        *sums(*COUNTERS, "advance", "elapsed_ms"),
        *of_first("first_log_offset"),
        *of_last("last_log_offset", "last_offset"),
    ],
)


def velocity(minutes: DataFrame) -> DataFrame:
    """By group, partition and minute of the commit's time: commits, and how far the offset went.

    In: the fold MINUTES. The advance is the sum of the steps from each commit to the next, so that minutes
    add up and a rewind inside a minute counts as negative.
    """
    per_minute = (
        minutes.withColumn("advance", sf.coalesce("advance", sf.lit(0)))
        .withColumn("elapsed_s", sf.col("elapsed_ms") / 1000)
        .withColumn(
            "offsets_per_s", sf.when(sf.col("elapsed_s") > 0, sf.col("advance") / sf.col("elapsed_s"))
        )
    )
    return VELOCITY.shape(per_minute)
