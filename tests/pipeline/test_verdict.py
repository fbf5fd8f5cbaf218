"""The verdict detects each disaster and reports none for healthy groups."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import BuildSettings, build
from pipeline.report.gather import Gathered
from pipeline.report.page import write_report
from pipeline.report.report_tables import Selection
from pipeline.report.story import KINDS, findings_of
from pipeline.report.verdict import KINDS as TOLD
from pipeline.report.verdict import Context, Finding, Severity, verdict
from pipeline.warehouse import Warehouse
from tests.browser import chromium, tab
from tests.interop.requirement import lacking
from tests.pipeline.fates import DISASTERS, HEALTHY, Fate, play
from tests.pipeline.hand_made import HandMade, at, fill, together

pytestmark = pytest.mark.timeout(600)


N_SHOWN = 10
SCREEN = 844
"""The height of a phone."""


def told(spark: SparkSession, directory: Path, fates: dict[str, Fate]) -> tuple[Gathered, Path]:
    """The report. Each history has a log partition of its own, as groups have."""
    made = [HandMade(number) for number in range(len(fates))]
    ends = [
        measured
        for (name, fate), one in zip(fates.items(), made, strict=True)
        for measured in play(one, {name: fate})
    ]
    warehouse = Warehouse(str(directory / "warehouse"))
    fill(warehouse, together(made))
    build(lambda: spark, warehouse, BuildSettings(measure=lambda *_: ends))
    out = directory / "report.html"
    return write_report(warehouse, str(out), Selection(n_groups=N_SHOWN)), out


@pytest.fixture(scope="module")
def all_of_it(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Gathered, Path]:
    """Everything at once."""
    fates = {name: fate for name, (fate, _) in DISASTERS.items()} | HEALTHY
    return told(spark, tmp_path_factory.mktemp("day"), fates)


@pytest.fixture(scope="module")
def day(all_of_it: tuple[Gathered, Path]) -> Gathered:
    return all_of_it[0]


@pytest.fixture(scope="module")
def page(all_of_it: tuple[Gathered, Path]) -> Path:
    return all_of_it[1]


def of_group(day: Gathered, group: str) -> list[Finding]:
    return [finding for finding in findings_of(day) if finding.group == group]


@pytest.mark.parametrize("group", DISASTERS)
def test_a_disaster_is_found(day: Gathered, group: str) -> None:
    kind = DISASTERS[group][1]
    assert kind in [finding.kind for finding in of_group(day, group)]


@pytest.mark.parametrize("group", HEALTHY)
def test_nothing_is_found_where_nothing_is_wrong(day: Gathered, group: str) -> None:
    assert [finding.text for finding in of_group(day, group)] == []


@pytest.mark.parametrize(
    ("group", "n_commits", "forward"),
    [("steady", 118, 6960), ("remade_topic", 116, 6720), ("clock_set_back", 118, 6960)],
)
def test_what_was_read_is_counted_whatever_became_of_topics_and_clocks(
    day: Gathered, group: str, n_commits: int, forward: int
) -> None:
    def of_gold(table: str) -> list[dict[str, Any]]:
        rows = pq.read_table(f"{day.warehouse}/{table}").to_pylist()
        return [row for row in rows if row["group"] == group]

    velocity = of_gold("velocity")
    assert sum(row["commits"] for row in velocity) == n_commits
    assert sum(row["advance"] for row in velocity) == forward
    assert all(row["elapsed_s"] >= 0 for row in velocity if row["elapsed_s"] is not None)
    assert [row["lag"] for row in of_gold("lag")] == [0, 0]
    assert len(of_gold("rebalance_stats")) == 1


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
    for fact in ("12:11:00", "49 min", "b@10.0.0.1 left", "from 0 to 48,960 messages", "of all lag"):
        assert fact in finding.text


def test_every_kind_of_anomaly_has_a_sentence_whatever_is_known_of_it() -> None:
    nothing = dict.fromkeys(
        (
            "topic",
            "partition",
            "member",
            "detail",
            "clients",
            "n_ids",
            "n_clients",
            "longest_pause_ms",
            "until_ts",
        )
    )
    known = {"n": 1, "amount": 5, "most": 5, "n_partitions": 1, "previous_offset": 0, "ts": at(60)}
    rows = [{"kind": kind, "group": f"{kind}\u202e"} | nothing | known for kind in TOLD]
    found = verdict(rows, Context(now=at(0), lag=None, period_s=0))  # a clock that was set back
    assert {finding.kind for finding in found} == TOLD >= KINDS.keys()
    for finding in found:
        assert finding.next_step.text
        assert "\u202e" not in finding.text + finding.next_step.command
        assert "None" not in finding.text
        assert "(-" not in finding.text


def test_of_groups_whose_offsets_expire_the_one_with_most_to_lose_comes_first() -> None:
    known = {"kind": "expiring_offsets", "ts": at(0), "until_ts": at(60), "detail": "nobody is there"}
    rows = [
        {"group": group, "amount": amount, "n_partitions": 1} | known
        for group, amount in (("a", None), ("b", 5), ("c", 70))
    ]
    found = verdict(rows, Context(now=at(60), lag=None, period_s=60))
    assert [finding.group for finding in found] == ["c", "b", "a"]


def test_a_lag_without_an_anomaly_says_since_when_and_how_long_it_takes_to_read(day: Gathered) -> None:
    (left,) = of_group(day, "left_behind")
    assert "16,920 messages" in left.text
    assert "12:11:00" in left.text
    (rising,) = of_group(day, "overrun")
    assert "to 7,320 messages" in rising.text


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


def test_a_healthy_day_says_so_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    gathered, page = told(spark, tmp_path, {name: HEALTHY[name] for name in ("steady", "rolling_restart")})
    assert findings_of(gathered) == []
    text = page.read_text()
    assert "No problems: 2 groups" in text
    assert 'class="verdict"' not in text


def test_the_period_is_what_was_played(day: Gathered) -> None:
    assert day.end - day.start < timedelta(hours=1)


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_browser_shows_the_worst_first_and_the_rest_folded(
    page: Path, tmp_path: Path, width: int
) -> None:
    if chromium() is None:
        lacking("there is no Chromium")
    async with tab(tmp_path) as shown:
        await shown.open(page, width)
        first = await shown.evaluate("document.querySelector('.verdict li').innerText")
        assert "abandoned has had no member" in first
        assert await shown.evaluate(
            "document.querySelector('.verdict li').getBoundingClientRect().bottom < 400"
        )
        groups = "[...document.querySelectorAll('details.group')]"
        assert await shown.evaluate(f"{groups}.length") == N_SHOWN
        assert await shown.evaluate(f"{groups}.every(group => !group.open)")
        assert await shown.evaluate(f"document.documentElement.scrollHeight < {8 * SCREEN}")
        contents = (
            "[...document.querySelectorAll('nav a, .verdict a')].map(link => link.getAttribute('href'))"
        )
        targets = await shown.evaluate(contents)
        assert len(targets) > 5
        for target in targets:
            assert await shown.evaluate(f"document.querySelector('{target}') !== null"), target
        await shown.evaluate("document.querySelector('.verdict a').click()")
        evidence = "document.querySelector('details.group:has(:target)')"
        await shown.until(f"{evidence}.open")
        assert "48,960" in await shown.evaluate(f"{evidence}.innerText")
        assert "Start a consumer" in await shown.evaluate(f"{evidence}.innerText")
        box = f"{evidence}.querySelector('summary').getBoundingClientRect()"
        await shown.until(f"{box}.top >= 0 && {box}.bottom < {SCREEN}")
        await shown.evaluate(f"{evidence}.querySelector('summary').click()")
        assert not await shown.evaluate(f"{evidence}.open")
        assert shown.troubles == []


async def test_a_plot_says_its_values_where_the_pointer_is(page: Path, tmp_path: Path) -> None:
    if chromium() is None:
        lacking("there is no Chromium")
    async with tab(tmp_path) as shown:
        await shown.open(page, 1280)
        plot = "document.querySelector('#groups svg.wide')"
        await shown.evaluate(f"{plot}.scrollIntoView({{block: 'center'}})")
        said = await shown.evaluate(
            f"""(() => {{ const box = {plot}.getBoundingClientRect();
            const there = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 3);
            return there.querySelector('title')?.textContent; }})()"""
        )
        assert said is not None
        assert said.startswith("2026-03-01 12:")
        assert "offsets a second" in said
