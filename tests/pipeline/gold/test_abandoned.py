"""Groups without remaining members. Each reads a topic of its own name, so that one pass covers all of them."""

from collections.abc import Callable
from typing import Final

from pipeline.gold.anomalies.abandoned_group import MeasuredEnds, abandoned_group
from pipeline.gold.anomalies.anomaly import anomaly_rows
from pipeline.gold.lag import lag
from pipeline.gold.rebalance_stats import COMMITS_AFTER, rebalance_stats
from pipeline.table import rows_of
from tests.pipeline.gold.silver import histories, latest_offsets, log_ends, micros, of_fold
from tests.pipeline.hand_made import HandMade, at

NOW_S = 1000
Measured = list[tuple[int, int]]
"""Second and end of each measurement."""


def two_lost(made: HandMade, group: str, emptied_s: float = 200) -> None:
    """Two consumers that leave one after the other."""
    made.generation(group, 1, {"a1": [(group, 0)], "b1": []}, 0)
    made.commit(group, group, 0, 100, emptied_s - 100)
    made.generation(group, 2, {"b1": [(group, 0)]}, emptied_s - 50)
    made.emptied(group, 3, emptied_s)


def measured_before(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    return [(200, 100), (NOW_S, 29_876)]


def measured_once(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    return [(NOW_S, 150)]


def nothing_new(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    return [(200, 500), (NOW_S, 500)]


def all_read(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    return [(200, 100), (NOW_S, 100)]


def only_just(made: HandMade, group: str) -> Measured:
    two_lost(made, group, NOW_S - 30)
    return [(200, 100), (NOW_S, 900)]


def a_batch_between_two_runs(made: HandMade, group: str) -> Measured:
    made.generation(group, 1, {"a1": [(group, 0)]}, 0)
    made.emptied(group, 2, 10)
    made.generation(group, 3, {"a2": [(group, 0)]}, 500)
    made.commit(group, group, 0, 100, 590)
    made.emptied(group, 4, 600)
    return [(600, 100), (NOW_S, 900)]


def somebody_came_back(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    made.generation(group, 4, {"c1": [(group, 0)]}, 900)
    return [(200, 100), (NOW_S, 900)]


def deleted(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    made.deleted(group, 900)
    return [(200, 100), (NOW_S, 900)]


def never_had_members(made: HandMade, group: str) -> Measured:
    made.commit(group, group, 0, 100, 10)
    return [(10, 100), (NOW_S, 900)]


def read_from_outside(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    made.commit(group, group, 0, 890, NOW_S - 5)
    return [(200, 100), (NOW_S, 900)]


def ends_not_known(made: HandMade, group: str) -> Measured:
    two_lost(made, group)
    return []


def reads_on(made: HandMade, group: str) -> Measured:
    made.generation(group, 1, {"a1": [(group, 0)]}, 0)
    made.commit(group, group, 0, 100, 100)
    return [(100, 100), (NOW_S, 900)]


ABANDONED: Final[tuple[Callable[[HandMade, str], Measured], ...]] = (measured_before, measured_once)
HEALTHY: Final[tuple[Callable[[HandMade, str], Measured], ...]] = (
    nothing_new, all_read, only_just, a_batch_between_two_runs, somebody_came_back, deleted, never_had_members,
    read_from_outside, ends_not_known, reads_on,
)  # fmt: skip


def test_only_groups_that_lost_everybody_while_more_came_are_abandoned() -> None:
    made = HandMade()
    measured = [
        (history.__name__, 0, at(second), 0, end, "file")
        for history in ABANDONED + HEALTHY
        for second, end in history(made, history.__name__)
    ]
    ends = log_ends(measured)
    behind = rows_of(lag(latest_offsets(made), ends))
    abandoned = [
        row
        for group in histories(made)
        for row in abandoned_group(
            rebalance_stats(group, of_fold(made, COMMITS_AFTER, group)),
            [row for row in behind if row["group"] == group.group],
            MeasuredEnds(rows_of(ends)),
            micros(at(NOW_S)),
        )
    ]
    found = {row["group"]: row for row in anomaly_rows("abandoned_group", abandoned).to_pylist()}
    assert set(found) == {history.__name__ for history in ABANDONED}
    row = found["measured_before"]
    assert (row["amount"], row["ts"], row["until_ts"]) == (29_776, at(200), at(NOW_S))
    assert row["previous_offset"] == 0
    assert "from 0 to 29776" in row["detail"]
    assert found["measured_once"]["amount"] == 50
    assert found["measured_once"]["previous_offset"] is None
    assert "unknown" in found["measured_once"]["detail"]
