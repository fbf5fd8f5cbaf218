"""Limits on CPU-seconds: they find a change that makes tests more expensive, and tolerate a slower machine."""

from collections.abc import Mapping

import pytest

from tests.cpu_limits import ALLOWANCE_S, LIMITS, TOLERANCE, TierLimits, measure_calibration_loop

ROWS = {"group": 100.0, "storage": 150.0, "cluster": 200.0, "cli": 40.0}
LIMIT = TierLimits(ROWS, total=900, calibration_s=0.01)


def find_excessive_folders(
    cpu_seconds: Mapping[str, float], *, slowdown: float = 1.0, extra: float = 0.0
) -> list[str]:
    """Return the first word of each sentence about an excess. `extra` CPU-seconds belong to no folder."""
    total = sum(cpu_seconds.values()) + extra
    pace = LIMIT.find_pace(cpu_seconds)
    return [sentence.split()[0] for sentence in LIMIT.find_excesses(cpu_seconds, total, pace, slowdown)]


def times(factor: float, **others: float) -> dict[str, float]:
    """Return the rows multiplied by a factor, except for the costs of `others`."""
    return {folder: row * factor for folder, row in ROWS.items()} | others


@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7, 3.0])
def test_a_machine_of_another_speed_stays_within_the_limits(factor: float) -> None:
    assert find_excessive_folders(times(factor), slowdown=factor) == []


@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("folder", ROWS)
def test_a_folder_that_got_dearer_is_named_on_a_machine_of_any_speed(folder: str, factor: float) -> None:
    most = ROWS[folder] * factor * TOLERANCE + ALLOWANCE_S
    assert find_excessive_folders(times(factor, **{folder: most - 1}), slowdown=9) == []
    assert find_excessive_folders(times(factor, **{folder: most + 1}), slowdown=9) == [folder]


def test_the_tier_is_over_its_limit_when_all_folders_get_dearer_alike() -> None:
    assert find_excessive_folders(times(1.8)) == []
    assert find_excessive_folders(times(1.9)) == ["the"]
    assert find_excessive_folders(times(1.8), extra=100) == ["the"]


def test_a_fast_machine_keeps_the_limit_of_the_tier() -> None:
    assert find_excessive_folders(times(1.8), slowdown=0.5) == []


def test_a_large_folder_needs_a_row() -> None:
    assert find_excessive_folders(times(1, new=ALLOWANCE_S)) == []
    assert find_excessive_folders(times(1, new=ALLOWANCE_S + 1)) == ["new"]


def test_a_folder_that_skipped_tests_does_not_lower_the_pace() -> None:
    costs = times(1, cluster=0.0, storage=0.0)
    assert LIMIT.find_pace(costs) == 0
    assert LIMIT.find_pace(costs, partial=["cluster", "storage"]) == 1


def test_the_table_has_both_tiers_and_each_folder_exists() -> None:
    tiers = [TierLimits.from_file(tier) for tier in ("fast", "extended")]
    folders = {folder for tier in tiers for folder in tier.folders}
    assert [folder for folder in folders if not LIMITS.with_name(folder).exists()] == []
    for tier in tiers:
        assert sum(tier.folders.values()) < tier.total
        assert tier.calibration_s > 0


def test_the_calibration_loop_takes_cpu_time() -> None:
    assert measure_calibration_loop() > 0
