"""An offset went backwards: what lies between is consumed again, or was reset on purpose."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.fold import Fold
from pipeline.gold.group_records import GROUP

_COLUMNS: Final = (
    *GROUP, "topic", "partition", "commit_ts", "member", "previous_member", "offset", "previous_offset",
    "log_offset", "previous_log_offset", "group_log_offset",
)  # fmt: skip

REWINDS: Final = Fold("rewinds", (), lambda history: history.where("is_rewind").select(*_COLUMNS))
"""The commits that are below the one before."""


def offset_rewind(rewinds: DataFrame) -> DataFrame:
    """Each commit below the one before it, with both presumed writers. `amount`: offsets gone back.

    In: the fold REWINDS.
    """
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
        rewinds,
        ts="commit_ts",
        amount=sf.col("previous_offset") - sf.col("offset"),
        detail=detail,
    )
