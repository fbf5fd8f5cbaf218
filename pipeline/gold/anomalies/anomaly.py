"""Giving the rows of one kind of anomaly the columns of all."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly_schema import ANOMALIES


def anomaly(kind: str, frame: DataFrame, **columns: Column | str) -> DataFrame:
    """In: rows with at least `log_partition` and `group`; columns by name, those left out are taken from the
    frame where it has them and are NULL otherwise."""
    chosen = {"kind": sf.lit(kind), **columns}
    result = []
    for name, spark_type in ANOMALIES.columns:
        value = chosen.get(name, name if name in frame.columns else sf.lit(None))
        column = sf.col(value) if isinstance(value, str) else value
        result.append(column.cast(spark_type).alias(name))
    return frame.select(*result)
