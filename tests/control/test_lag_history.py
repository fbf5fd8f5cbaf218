"""The history of lags: it is bounded and reaches back to its first sample."""

import itertools

import pytest

from coordinator.control.lag_history import MAX_POINTS, LagSeries


def fill(samples: int) -> LagSeries:
    """Return a series of samples with the numbers 0, 1, 2, ... as times and lags."""
    series = LagSeries()
    for number in range(samples):
        series.add(number, number)
    return series


def test_a_short_history_has_every_sample() -> None:
    series = fill(MAX_POINTS)
    assert [(point.at_ms, point.lag) for point in series.points()] == [(n, n) for n in range(MAX_POINTS)]
    assert not series.is_thinned


@pytest.mark.parametrize("samples", [MAX_POINTS + 1, 10 * MAX_POINTS, 1_000 * MAX_POINTS])
def test_a_long_history_keeps_its_beginning_in_equal_steps(samples: int) -> None:
    series = fill(samples)
    times = [point.at_ms for point in series.points()]
    assert MAX_POINTS // 2 <= len(times) <= MAX_POINTS
    assert times[0] == 0
    steps = {after - before for before, after in itertools.pairwise(times)}
    assert len(steps) == 1
    assert samples - times[-1] <= steps.pop()
    assert series.is_thinned
