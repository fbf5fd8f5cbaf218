"""A group that commits offsets of one partition both in transactions and outside of them.

Which of the two counts is decided by the order of their records in the log: a plain commit before that of the
transaction is replaced when the transaction ends, one after it stays. groupd says so in a line of its log, once for
each group; here aborted transactions are none, as everywhere in these tables.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.fold import Fold, of_first, of_last, sums
from pipeline.gold.group_records import GROUP

_OF_THE_FIRST: Final = (
    "topic", "partition", "offset", "previous_offset", "previous_log_offset", "member", "previous_member",
    "group_log_offset", "producer_id",
)  # fmt: skip


def _rows(history: DataFrame) -> DataFrame:
    return history.where("is_mixed").select(
        *GROUP,
        *_OF_THE_FIRST,
        sf.lit(1).cast("bigint").alias("amount"),
        "log_offset",
        sf.col("log_offset").alias("last_log_offset"),
        sf.col("commit_ts").alias("ts"),
        sf.col("commit_ts").alias("until_ts"),
    )


MIXTURES: Final = Fold(
    "mixtures",
    GROUP,
    _rows,
    lambda: [
        *sums("amount"),
        *of_first("log_offset", *_OF_THE_FIRST, "ts"),
        *of_last("last_log_offset", "until_ts"),
    ],
)


def mixed_commits(mixtures: DataFrame) -> DataFrame:
    """One row for each group. `amount`: commits of another kind than the one before; the evidence is the first.

    In: the fold MIXTURES.
    """
    detail = sf.when(
        sf.col("producer_id").isNull(), "first a plain one after one of a transaction"
    ).otherwise("first one of a transaction after a plain one")
    return anomaly("mixed_commits", mixtures, detail=detail)
