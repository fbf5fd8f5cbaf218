"""A group that commits offsets of one partition both in transactions and outside of them.

Which of the two counts is decided by the order of their records in the log: a plain commit before that of the
transaction is replaced when the transaction ends, one after it stays. groupd says so in a line of its log, once for
each group; here aborted transactions are none, as everywhere in these tables.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import GROUP

_OF_THE_FIRST: Final = (
    "topic", "partition", "offset", "previous_offset", "previous_log_offset", "member", "previous_member",
    "group_log_offset", "producer_id",
)  # fmt: skip


def mixed_commits(history: DataFrame) -> DataFrame:
    """One row for each group. `amount`: commits of another kind than the one before; the evidence is the first."""
    is_plain, was_plain = sf.col("producer_id").isNull(), sf.col("previous_producer_id").isNull()
    mixed = history.where(sf.col("previous_log_offset").isNotNull() & (is_plain != was_plain))
    found = mixed.groupBy(*GROUP).agg(
        *(sf.min_by(name, "log_offset").alias(name) for name in _OF_THE_FIRST),
        sf.count("*").alias("amount"),
        sf.min("log_offset").alias("log_offset"),
        sf.min_by("commit_ts", "log_offset").alias("ts"),
        sf.max_by("commit_ts", "log_offset").alias("until_ts"),
    )
    detail = sf.when(is_plain, "first a plain one after one of a transaction").otherwise(
        "first one of a transaction after a plain one"
    )
    return anomaly("mixed_commits", found, detail=detail)
