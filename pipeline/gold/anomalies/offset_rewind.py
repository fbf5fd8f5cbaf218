"""An offset went backwards: what lies between is consumed again, or was reset on purpose."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly


def offset_rewind(history: DataFrame) -> DataFrame:
    """Each commit below the one before it, with both presumed writers. `amount`: offsets gone back."""
    detail = (
        sf.when(sf.col("member").isNull() & sf.col("previous_member").isNull(), "neither writer is known")
        .when(
            sf.col("member").isNull(),
            "by nobody who owned the partition: a reset, or a consumer outside the group",
        )
        .when(sf.col("previous_member").isNull(), "the commit before was by nobody who owned the partition")
        .when(sf.col("member") == sf.col("previous_member"), "the same member went back")
        .otherwise("another member owned the partition before")
    )
    return anomaly(
        "offset_rewind",
        history.where("is_rewind"),
        ts="commit_ts",
        amount=sf.col("previous_offset") - sf.col("offset"),
        detail=detail,
    )
