"""Finding stretches in which something happens too often."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.group_records import GROUP


def crowded(events: DataFrame, count: int, within_s: int) -> DataFrame:
    """The stretches of a group's events in which any `count` in a row lie within `within_s` seconds.

    In: rows with `log_partition`, `group`, `log_offset`, `record_ts`, `generation`. Out, one row a stretch: `ts`,
    `until_ts`, `amount` (its events), `log_offset` of the last and `previous_log_offset` of the first event,
    `generation` of the last. Stretches that share an event are one.
    """
    order = Window.partitionBy(*GROUP).orderBy("log_offset")
    span_ms = sf.unix_millis(sf.lead("record_ts", count - 1).over(order)) - sf.unix_millis("record_ts")
    in_stretch = sf.max("starts").over(order.rowsBetween(-(count - 1), 0)) == 1
    return (
        events.withColumn("starts", sf.coalesce((span_ms <= within_s * 1000).cast("int"), sf.lit(0)))
        .withColumn("n", sf.row_number().over(order))
        .withColumn("in_stretch", in_stretch)
        .where("in_stretch")
        .withColumn("stretch", sf.col("n") - sf.row_number().over(order))
        .groupBy(*GROUP, "stretch")
        .agg(
            sf.min_by("record_ts", "log_offset").alias("ts"),
            sf.max_by("record_ts", "log_offset").alias("until_ts"),
            sf.count("*").alias("amount"),
            sf.max("log_offset").alias("log_offset"),
            sf.min("log_offset").alias("previous_log_offset"),
            sf.max_by("generation", "log_offset").alias("generation"),
        )
    )
