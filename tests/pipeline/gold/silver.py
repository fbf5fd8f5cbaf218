"""Gold tables straight from a hand-made history."""

from pyspark.sql import DataFrame

from pipeline.gold import commit_history as history_of
from pipeline.gold import latest_offsets as latest
from pipeline.gold import ownership as owners
from pipeline.gold import rebalance_stats as rebalances
from tests.pipeline.hand_made import HandMade


def history(made: HandMade) -> DataFrame:
    tables = (made.table(name) for name in history_of.GroupTables._fields)
    nothing = history_of.LAST_COMMITS.empty(made.spark)
    return history_of.commit_history(made.table("commits"), history_of.GroupTables(*tables), nothing)


def latest_offsets(made: HandMade) -> DataFrame:
    nothing = history_of.LAST_COMMITS.empty(made.spark)
    return latest.latest_offsets(history_of.last_commits(history(made), nothing))


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
        rebalances.COMMITS_AFTER.of(history(made)),
        rebalances.REBALANCE_STATS.empty(made.spark),
    )
