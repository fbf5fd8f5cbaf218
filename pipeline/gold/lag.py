"""How far each group is behind the end of what it consumes."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.table import Table

LAG: Final = Table.declare(
    "lag",
    """
    log_partition int
    group string
    topic string
    partition int
    offset bigint
    commit_ts timestamp
    log_start_offset bigint
    log_end_offset bigint
    lag bigint
    lost bigint
    unread_since_ts timestamp
    measured_ts timestamp
    source string
    log_offset bigint
    """,
)

_TOPIC: Final = ("topic", "partition")


def lag(latest_offsets: DataFrame, log_end_offsets: DataFrame) -> DataFrame:
    """One row for each row of `latest_offsets`, against the last known end of that partition's log.

    Lag is never negative: a commit beyond the measured end is newer than the measurement. `unread_since_ts`
    is the first of all measurements that lie beyond the committed offset: since then, at the latest, something
    has been waiting.
    """
    ends = log_end_offsets.groupBy(*_TOPIC).agg(
        *(sf.max_by(name, "at_ts").alias(name) for name in ("log_start_offset", "log_end_offset", "source")),
        sf.max("at_ts").alias("measured_ts"),
    )
    waiting = (
        latest_offsets.select("log_partition", "log_offset", "offset", *_TOPIC)
        .join(log_end_offsets.select(*_TOPIC, "at_ts", "log_end_offset"), list(_TOPIC))
        .where(sf.col("log_end_offset") > sf.col("offset"))
        .groupBy("log_partition", "log_offset")
        .agg(sf.min("at_ts").alias("unread_since_ts"))
    )
    behind = (
        latest_offsets.join(ends, list(_TOPIC), "left")
        .join(waiting, ["log_partition", "log_offset"], "left")
        .withColumn("behind", sf.greatest(sf.col("log_end_offset") - sf.col("offset"), sf.lit(0)))
        .withColumn("gone", sf.greatest(sf.col("log_start_offset") - sf.col("offset"), sf.lit(0)))
        .withColumn("lag", sf.when(sf.col("log_end_offset").isNotNull(), sf.col("behind")))
        .withColumn("lost", sf.when(sf.col("log_start_offset").isNotNull(), sf.col("gone")))
        .withColumn("unread_since_ts", sf.when(sf.col("lag") > 0, sf.col("unread_since_ts")))
    )
    return LAG.shape(behind)
