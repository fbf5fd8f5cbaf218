"""When a benchmark treats a server as warm; invented windows."""

from collections.abc import Iterable

import pytest

from benchmarks.report import Report
from benchmarks.warm_up import WarmedUp, warm_up


async def warmed(figures: Iterable[float], most: int = 30) -> WarmedUp:
    windows = iter(figures)

    async def window() -> float:
        return next(windows)

    return await warm_up(window, most)


async def test_three_windows_that_agree_are_enough() -> None:
    done = await warmed([100.0, 104.9, 102.0])
    assert done.is_settled
    assert list(done.figures) == [100.0, 104.9, 102.0]


async def test_a_server_that_gets_faster_is_waited_for() -> None:
    done = await warmed([10, 14, 20, 28, 30, 30.5, 31, 1000])
    assert done.is_settled
    assert list(done.figures) == [10, 14, 20, 28, 30, 30.5, 31]


async def test_two_that_agree_and_one_that_does_not_are_not_in_a_row() -> None:
    done = await warmed([100, 101, 110, 100, 101, 101])
    assert len(done.figures) == 6


@pytest.mark.parametrize("figures", [[100.0, 105.1, 100.0], [100.0, 103.0, 106.0]])
async def test_more_than_a_twentieth_between_any_two_is_not_agreed(figures: list[float]) -> None:
    done = await warmed(figures, most=3)
    assert not done.is_settled


async def test_a_server_that_never_settles_is_given_up_and_told() -> None:
    done = await warmed((100.0 * 2**number for number in range(100)), most=7)
    assert not done.is_settled
    assert len(done.figures) == 7
    assert str(done) == "7 windows, the last 300% apart"
    report = Report("Commits", "so", ["what"], unsettled=[f"Kafka ({done})"])
    assert "Never settled while it was warmed up: Kafka (7 windows, the last 300% apart)." in report.markdown(
        0
    )


async def test_a_report_of_warm_servers_says_nothing_of_it() -> None:
    assert "settled" not in Report("Commits", "so", ["what"]).markdown(0)


@pytest.mark.parametrize("most", [1, 2])
async def test_too_few_windows_never_settle(most: int) -> None:
    done = await warmed([100.0] * 9, most)
    assert not done.is_settled
    assert len(done.figures) == most
