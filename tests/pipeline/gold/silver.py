"""Gold tables straight from a hand-made history."""

from pyspark.sql import DataFrame

from pipeline.gold import commit_history as history_of
from pipeline.gold import latest_offsets as latest
from pipeline.gold import ownership as owners
from pipeline.gold import rebalance_stats as rebalances
from tests.pipeline.hand_made import HandMade


def history(made: HandMade) -> DataFrame:
    return history_of.commit_history(
        made.table("commits"),
        made.table("group_generations"),
        made.table("members"),
        made.table("assignments"),
    )


def latest_offsets(made: HandMade) -> DataFrame:
    return latest.latest_offsets(made.table("commits"))


def ownership(made: HandMade) -> DataFrame:
    return owners.ownership(
        made.table("group_generations"),
        made.table("members"),
        made.table("assignments"),
        owners.OWNERSHIP.empty(made.spark),
    )


def rebalance_stats(made: HandMade) -> DataFrame:
    return rebalances.rebalance_stats(
        made.table("group_generations"),
        made.table("members"),
        history(made),
        rebalances.REBALANCE_STATS.empty(made.spark),
    )
