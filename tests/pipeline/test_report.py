"""The report: its content for large and empty logs, and its appearance in a browser."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD
from pipeline.errors import BadInput
from pipeline.report.gather import Gathered, gather
from pipeline.report.page import check_out
from pipeline.report.report_tables import Selection
from pipeline.report.story import story
from pipeline.report.words import moment
from tests.browser import chromium, tab
from tests.interop.requirement import lacking
from tests.pipeline.hand_made import HandMade, at
from tests.pipeline.page import Page
from tests.pipeline.rows import rows
from tests.pipeline.told import HOSTILE, N_ABORTED, N_SHOWN, Told, ends

pytestmark = pytest.mark.timeout(600)

YEAR_S = 365 * 86400


def nothing(_made: HandMade) -> None:
    """An empty log."""


def one_commit(made: HandMade) -> None:
    """A single record."""
    made.commit("g", "t", 0, 7, 1)


def idle_for_a_year(made: HandMade) -> None:
    """A second commit after a year, and a group that never committed."""
    made.generation("waiting", 1, {"a1": [("t", 0)]}, 2)
    made.commit("g", "t", 0, 8, YEAR_S)


@pytest.fixture(scope="module")
def gathered(told: Told) -> Gathered:
    """What the report on the eventful history shows."""
    return gather(told.warehouse, Selection(n_groups=N_SHOWN))


def test_the_story_has_ten_lines_with_their_sources(gathered: Gathered) -> None:
    lines = story(gathered)
    assert len(lines) == 10
    assert all(line.text and line.source for line in lines)
    text = "\n".join(line.text for line in lines)
    for fact in (
        "208 commits",
        "24 groups",
        "11 rebalances",
        "1 rebalance storm",
        "59 offsets that went backwards",
        "Transactions made 20 (10 %) of all commits",
        "1 group that mixes plain and transactional commits",
        "aborted transaction (25)",
        "open transaction (1)",
    ):
        assert fact in text


def test_the_instant_of_the_lag_is_stated(told: Told, gathered: Gathered) -> None:
    assert gathered.info["lag_ts"] == at(600)
    words = "".join(Page(told.text).words)
    assert words.count(f"{moment(at(600))} UTC") >= 2, "beside the groups and in the story"


def test_nothing_in_a_name_runs_or_loads(told: Told) -> None:
    page = Page(told.text)
    assert page.active == []
    assert "default-src 'none'" in told.text
    words = "".join(page.words)
    assert "<script>document.title='owned'</script>" in words
    assert "\u202e" not in words
    assert "\x00" not in told.text
    assert not re.search(r"https?://(?!www\.w3\.org/)", told.text)


def test_the_most_remarkable_groups_are_shown_and_the_rest_summed_up(told: Told, gathered: Gathered) -> None:
    shown = [details.summary["group"] for details in gathered.groups]
    assert len(shown) == N_SHOWN
    assert {"restless", "wide", HOSTILE} <= set(shown)
    assert gathered.totals["n_groups"] == 24
    assert "20 other groups" in told.text


def test_a_transaction_that_never_ended_is_listed_among_many_that_did(told: Told, gathered: Gathered) -> None:
    """The transaction that was open once has ended since: records after it have been read."""
    open_ones = [row for row in gathered.findings if row["kind"] == "open_transaction"]
    assert [row["found_ts"] for row in open_ones] == [at(600)]
    assert len(gathered.findings) < N_ABORTED
    (section,) = told.text.split("Irregularities of the log")[1:]
    assert section.count("open transaction") == 1
    assert section.count("aborted transaction") == len(gathered.findings) - 1


def test_only_the_period_and_groups_asked_for_are_told(told: Told) -> None:
    selection = Selection(since=at(60), until=at(120), groups=("restless", "small-1"))
    gathered = gather(told.warehouse, selection)
    assert [details.summary["group"] for details in gathered.groups] == ["restless", "small-1"]
    assert gathered.totals["n_rebalances"] == 2
    assert gathered.totals["commits"] == 2
    assert (gathered.start, gathered.end) == (at(60), at(120))
    assert "wide" not in repr(gathered)


def check_sane(told: Told, gathered: Gathered) -> None:
    assert len(story(gathered)) == 10
    page = Page(told.text)
    assert page.active == []
    words = "".join(page.words)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b|1970|NaT", words)
    assert ("Commits" in words) == (gathered.totals["commits"] > 0)


def test_little_makes_a_sane_report_and_a_later_build_replaces_the_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    told = Told(spark, tmp_path)

    def table(name: str, *columns: str) -> list[Any]:
        return rows(told.warehouse.gold(spark, name), *columns)

    check_sane(told, told.goes_on(nothing))
    for name in GOLD:
        assert told.warehouse.gold(spark, name).count() == (name == "build_info")
    check_sane(told, told.goes_on(one_commit, ends(("t", 0, 2, 40))))
    assert table("latest_offsets", "offset") == [7]
    assert table("lag", "lag") == [33]
    check_sane(told, told.goes_on(idle_for_a_year))
    assert table("latest_offsets", "offset") == [8]
    assert table("lag", "lag") == [None]
    assert sum(table("velocity", "commits")) == 2
    assert table("rebalance_stats", "group") == ["waiting"]
    file = told.warehouse.path(told.warehouse.gold_file("velocity"))
    pq.write_table(pq.read_table(file).drop_columns(["transactional_commits"]), file)
    with pytest.raises(BadInput, match="transactional_commits: build the tables again"):
        gather(told.warehouse, Selection())


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_browser_shows_it_without_trouble(
    told: Told, tmp_path: Path, width: int, scheme: str
) -> None:
    if chromium() is None:
        lacking("there is no Chromium")
    async with tab(tmp_path) as page:
        await page.open(told.file, width, scheme)
        await page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert await page.evaluate("document.title") != "owned"
        assert await page.evaluate("innerWidth") == width
        root = "document.documentElement"
        assert await page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        visible = (
            "[...document.querySelectorAll('svg.plot')].filter(plot => plot.getBoundingClientRect().width)"
        )
        assert await page.evaluate(f"{visible}.length") >= 2 * N_SHOWN
        assert await page.evaluate(f"{visible}.every(plot => plot.getBoundingClientRect().right <= {width})")
        letters = f"{visible}.flatMap(plot => [...plot.querySelectorAll('text')])"
        heights = f"{letters}.map(text => text.getBoundingClientRect().height).filter(height => height > 0)"
        assert await page.evaluate(f"Math.min(...{heights})") >= 8
        colors = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        ink, paper = await page.evaluate(colors)
        assert (brightness(ink) < brightness(paper)) == (scheme == "light")
        assert page.troubles == []


def brightness(color: str) -> int:
    return sum(int(part) for part in re.findall(r"\d+", color)[:3])


def test_a_place_that_cannot_be_written_is_named_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="missing"):
        check_out(str(tmp_path / "missing" / "report.html"))
    with pytest.raises(BadInput, match=re.escape(str(tmp_path))):
        check_out(str(tmp_path))
    check_out(str(tmp_path / "report.html"))
