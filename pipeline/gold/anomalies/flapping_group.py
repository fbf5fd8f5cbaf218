"""A group that empties again and again: all of it restarts, or it never stays up."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.anomalies.crowding import crowded

TIMES: Final = 3
WITHIN_S: Final = 3600


def flapping_group(rebalance_stats: DataFrame) -> DataFrame:
    """Stretches in which a group became empty TIMES or more within WITHIN_S seconds. `amount`: how often."""
    events = rebalance_stats.where(sf.col("kind") == "emptied")
    detail = sf.concat(sf.lit("lost its last member "), sf.col("amount"), sf.lit(" times"))
    return anomaly("flapping_group", crowded(events, TIMES, WITHIN_S), detail=detail)
