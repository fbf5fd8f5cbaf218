"""Gold tables straight from a hand-made history."""

from pyspark.sql import DataFrame

from pipeline.gold import cells as cells_of
from pipeline.gold import commit_history as history_of
from pipeline.gold import latest_offsets as latest
from pipeline.gold import ownership as owners
from pipeline.gold import rebalance_stats as rebalances
from tests.pipeline.hand_made import HandMade


def history(made: HandMade) -> DataFrame:
    return history_of.with_writers(_history(made), _writers(made))


def _history(made: HandMade) -> DataFrame:
    nothing = history_of.LAST_COMMITS.empty(made.spark)
    return history_of.commit_history(made.table("commits"), made.table("group_generations"), nothing)


def _writers(made: HandMade) -> DataFrame:
    return history_of.writers(made.table("members"), made.table("assignments"))


def cells(made: HandMade, step_s: int = 60) -> DataFrame:
    return history_of.with_writers(cells_of.cells(_history(made), step_s), _writers(made))


def latest_offsets(made: HandMade) -> DataFrame:
    nothing = history_of.LAST_COMMITS.empty(made.spark)
    last = history_of.last_commits(made.table("commits"), cells_of.cells(_history(made), 60), nothing)
    return latest.latest_offsets(last)


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
        rebalances.COMMITS_AFTER.of(cells(made)),
        rebalances.REBALANCE_STATS.empty(made.spark),
    )
