"""Lag, now and over time."""

from datetime import datetime

import pyarrow as pa
import pytest

from pipeline.gold.lag import lag
from pipeline.gold.progress import (
    CONSUMED,
    MAX_STEPS,
    POSITIONS,
    STEPS_S,
    grain_s,
    lengthen_steps,
    progress,
    step_length_s,
)
from tests.pipeline.gold.silver import aggregates, latest_offsets, log_ends
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.rows import one, rows

End = tuple[str, int, datetime, int | None, int, str]


def ends(*measured: End) -> pa.Table:
    return log_ends(measured)


def in_steps(made: HandMade, measured: pa.Table, step_s: int) -> pa.Table:
    """Progress, from folds as fine as a build keeps them."""
    commits = aggregates(made, grain_s(step_s))
    consumed, positions = (lengthen_steps(one, one.of(commits), step_s) for one in (CONSUMED, POSITIONS))
    return progress(consumed, positions, measured, step_s)


def test_lag_is_counted_from_the_last_measurement() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 40, 5)
    made.commit("g", "t", 1, 40, 5)
    made.commit("g", "u", 0, 40, 5)
    measured = ends(
        ("t", 0, at(4), 0, 30, "file"),
        ("t", 0, at(9), 0, 45, "file"),
        ("t", 0, at(20), 0, 100, "file"),
        ("t", 1, at(20), 50, 39, "file"),
    )
    table = lag(latest_offsets(made), measured)
    assert rows(table, "topic", "partition", "lag", "lost", "unread_since_ts", "measured_ts") == [
        ("t", 0, 60, 0, at(9), at(20)),
        ("t", 1, 0, 10, None, at(20)),
        ("u", 0, None, None, None, None),
    ]


def test_lag_over_time_follows_both_sides() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 10, 0)
    made.commit("g", "t", 1, 0, 1)
    made.commit("g", "t", 0, 20, 20)
    made.commit("g", "t", 1, None, 41)
    measured = ends(
        ("t", 0, at(0), 0, 10, "file"),
        ("t", 1, at(10), 0, 7, "file"),
        ("t", 0, at(15), 0, 50, "file"),
        ("t", 0, at(50), 0, 20, "file"),
    )
    table = in_steps(made, measured, 10)
    assert rows(table, "step_ts", "commits", "advance", "lag") == [
        (at(0), 2, 0, 0),
        (at(10), 0, 0, 47),
        (at(20), 1, 10, 37),
        (at(40), 0, 0, 30),
        (at(50), 0, 0, 0),
    ]


def test_without_measurements_progress_has_no_lag() -> None:
    made = HandMade()
    made.commit("g", "t", 0, 10, 0)
    made.commit("g", "t", 0, 70, 30)
    table = in_steps(made, ends(), 60)
    row = one(table)
    assert (row["commits"], row["advance"], row["offsets_per_s"], row["lag"]) == (2, 60, 1.0, None)


@pytest.mark.parametrize("period_s", [0, 1, 119, 121, 3600, 86400 * 3, 86400 * 365, 86400 * 3650])
def test_steps_are_as_short_as_a_plot_can_show(period_s: float) -> None:
    step_s = step_length_s(period_s)
    assert period_s / step_s <= MAX_STEPS
    assert step_s == 1 or period_s / step_s > MAX_STEPS / 6


@pytest.mark.parametrize("step_s", STEPS_S)
def test_what_is_kept_can_be_put_together_to_every_step_that_may_come(step_s: int) -> None:
    assert all(later % grain_s(step_s) == 0 for later in STEPS_S if later >= step_s)
    assert step_s / grain_s(step_s) <= 73  # a year to five days; all others are closer
