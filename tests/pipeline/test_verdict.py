"""The verdict finds each disaster, and nothing in what is healthy."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.build import BuildSettings, build
from pipeline.report.gather import Gathered, Selection, gather
from pipeline.report.story import findings_of
from pipeline.report.verdict import Finding, Severity
from pipeline.warehouse import Warehouse
from tests.pipeline.fates import DISASTERS, HEALTHY, Fate, play
from tests.pipeline.hand_made import HandMade, fill, together

pytestmark = pytest.mark.timeout(600)


def gathered(spark: SparkSession, directory: Path, fates: dict[str, Fate]) -> Gathered:
    """Each history has a log partition of its own, as groups have."""
    made = [HandMade(spark, number) for number in range(len(fates))]
    ends = [
        measured
        for (name, fate), one in zip(fates.items(), made, strict=True)
        for measured in play(one, {name: fate})
    ]
    warehouse = Warehouse(str(directory / "warehouse"))
    fill(spark, warehouse, together(made))
    build(spark, warehouse, BuildSettings(measure=lambda *_: ends))
    return gather(spark, warehouse, Selection(n_groups=4))


@pytest.fixture(scope="module")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    """Everything at once."""
    fates = {name: fate for name, (fate, _) in DISASTERS.items()} | HEALTHY
    return gathered(spark, tmp_path_factory.mktemp("day"), fates)


def of_group(day: Gathered, group: str) -> list[Finding]:
    return [finding for finding in findings_of(day) if finding.group == group]


@pytest.mark.parametrize("group", DISASTERS)
def test_a_disaster_is_found(day: Gathered, group: str) -> None:
    kind = DISASTERS[group][1]
    assert kind in [finding.kind for finding in of_group(day, group)]


@pytest.mark.parametrize("group", HEALTHY)
def test_nothing_is_found_where_nothing_is_wrong(day: Gathered, group: str) -> None:
    assert [finding.text for finding in of_group(day, group)] == []


def test_the_worst_comes_first(day: Gathered) -> None:
    found = findings_of(day)
    assert [finding.severity for finding in found] == sorted((f.severity for f in found), reverse=True)
    assert found[0].severity is Severity.CRITICAL
    assert (found[0].group, found[0].kind) in {
        ("abandoned", "abandoned_group"),
        ("too_late", "lost_messages"),
    }


def test_an_abandoned_group_says_since_when_and_what_it_costs(day: Gathered) -> None:
    (finding,) = [each for each in of_group(day, "abandoned") if each.kind == "abandoned_group"]
    for fact in ("12:11:00", "49 min", "from 0 to 48,960 messages", "of all lag"):
        assert fact in finding.text


def test_a_storm_names_the_clients_behind_it_and_not_their_member_ids(day: Gathered) -> None:
    (finding,) = [each for each in of_group(day, "storm") if each.kind == "rebalance_storm"]
    for fact in ("61 times", "3 clients", "63 member ids", "x@10.0.0.1", "y@10.0.0.1", "z@10.0.0.1"):
        assert fact in finding.text


def test_a_client_that_leaves_regularly_is_named_with_its_distance(day: Gathered) -> None:
    (finding,) = [each for each in of_group(day, "slow_poll") if each.kind == "regular_leaving"]
    assert "slow@10.0.0.1" in finding.text
    assert "every 5 min" in finding.text
    assert "max.poll.interval.ms" in finding.text


def test_what_moved_is_told_by_assignor(day: Gathered) -> None:
    told = {row["assignor"]: row for row in day.assignors}
    assert told["cooperative-sticky"]["needless"] == 0
    assert told["cooperative-sticky"]["moved"] == 1
    assert told["range"]["n"] > 60


def test_the_period_is_what_was_played(day: Gathered) -> None:
    assert day.end - day.start < timedelta(hours=1)
