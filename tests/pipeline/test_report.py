"""The report: what it says, of much and of nothing, and how it looks in a browser."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, Settings, build
from pipeline.errors import BadInput
from pipeline.log_ends import LogEnd
from pipeline.report.gather import Gathered, Selection
from pipeline.report.page import check_out, write_report
from pipeline.report.story import story
from pipeline.warehouse import Warehouse
from tests.interop.requirement import lacking
from tests.pipeline.browser import chromium, tab
from tests.pipeline.hand_made import HandMade, at, fill

pytestmark = pytest.mark.timeout(600)

HOSTILE = "<script>document.title='owned'</script>'\"&$x^2$\\\u202e\x00\n" + "long" * 60
YEAR_S = 365 * 86400
Fill = Callable[[HandMade], None]


def eventful(made: HandMade) -> None:
    """Several groups over ten minutes, one with a name that nobody should give."""
    made.generation("quiet", 3, {"lonely": []}, 0)
    for n in range(8):
        made.generation("restless", 1 + n, {f"r{n}": [("orders", 0)], f"s{n}": [("orders", 1)]}, 30 * n)
        made.commit("restless", "orders", 0, 10 * n, 30 * n + 5)
    made.emptied("restless", 9, 300)
    made.generation(HOSTILE, 1, {HOSTILE: [(HOSTILE, n) for n in range(3)]}, 1)
    made.generation("wide", 1, {f"w{n}@w{n}": [("docs", n), ("docs", n + 30)] for n in range(30)}, 2)
    for n in range(60):
        made.commit(HOSTILE, HOSTILE, 0, 500 - 7 * n, 10 * n)
        made.commit("wide", "docs", n, 5, 10 * n)
        made.commit("wide", "orders", 0, 5, 10 * n)
    for n in range(20):
        made.commit(f"small-{n}", "orders", 1, n, 600)


def nothing(_made: HandMade) -> None:
    """An empty log."""


def one_commit(made: HandMade) -> None:
    """A single record."""
    made.commit("g", "t", 0, 7, 1)


def idle_for_a_year(made: HandMade) -> None:
    """Two commits with a year between them, and a group that never committed."""
    made.generation("waiting", 1, {"a1": [("t", 0)]}, 0)
    made.commit("g", "t", 0, 7, 1)
    made.commit("g", "t", 0, 8, YEAR_S)


class Told:
    """A report on a history: the file, its text, what was gathered."""

    def __init__(self, spark: SparkSession, directory: Path, history: Fill, ends: list[LogEnd]) -> None:
        made = HandMade(spark)
        history(made)
        self.spark = spark
        self.warehouse = Warehouse(str(directory / "warehouse"))
        fill(spark, self.warehouse, made)
        build(spark, self.warehouse, Settings(measure=lambda *_: ends))
        self.file = directory / "report.html"
        self.gathered = self.tell(Selection())

    def tell(self, selection: Selection) -> Gathered:
        return write_report(self.spark, self.warehouse, str(self.file), selection)

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")


def ends(*measured: tuple[str, int, float, int]) -> list[LogEnd]:
    return [
        LogEnd(topic, n, int(at(second).timestamp() * 1000), 0, end, "file")
        for topic, n, second, end in measured
    ]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    measured = ends(("orders", 0, 100, 50), ("orders", 0, 600, 900), ("orders", 1, 600, 19))
    return Told(spark, tmp_path_factory.mktemp("told"), eventful, measured)


class Page(HTMLParser):
    """The words of a page, and whatever in it could run or load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.active: list[str] = []
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_style = tag == "style"
        if tag in {"script", "iframe", "object", "embed", "link", "base", "form", "img"}:
            self.active.append(tag)
        self.active += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.active += [
            f"{tag} {name}={value}"
            for name, value in attrs
            if name in {"src", "href", "xlink:href"} and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            self.words.append(data)


def test_the_story_has_ten_lines_with_their_sources(told: Told) -> None:
    lines = story(told.gathered)
    assert len(lines) == 10
    assert all(line.text and line.source for line in lines)
    text = "\n".join(line.text for line in lines)
    for fact in (
        "208 commits",
        "24 groups",
        "11 rebalances",
        "1 rebalance storm",
        "59 offsets that went backwards",
    ):
        assert fact in text


def test_nothing_in_a_name_runs_or_loads(told: Told) -> None:
    page = Page(told.text)
    assert page.active == []
    assert "default-src 'none'" in told.text
    words = "".join(page.words)
    assert "<script>document.title='owned'</script>" in words
    assert "\u202e" not in words
    assert "\x00" not in told.text
    assert not re.search(r"https?://(?!www\.w3\.org/)", told.text)


def test_the_most_remarkable_groups_are_shown_and_the_rest_summed_up(told: Told) -> None:
    shown = [details.summary["group"] for details in told.gathered.groups]
    assert len(shown) == 12
    assert {"restless", "wide", HOSTILE} <= set(shown)
    assert told.gathered.totals["n_groups"] == 24
    assert "12 other groups" in told.text


def test_only_the_period_and_groups_asked_for_are_told(told: Told) -> None:
    everything = told.text
    gathered = told.tell(Selection(since=at(60), until=at(120), groups=("restless", "small-1")))
    try:
        assert [details.summary["group"] for details in gathered.groups] == ["restless", "small-1"]
        assert gathered.totals["n_rebalances"] == 2
        assert gathered.totals["commits"] == 2
        assert (gathered.start, gathered.end) == (at(60), at(120))
        assert "wide" not in "".join(Page(told.text).words)
    finally:
        told.file.write_text(everything, encoding="utf-8")


@pytest.mark.parametrize("history", [nothing, one_commit, idle_for_a_year], ids=lambda fill: fill.__name__)
async def test_little_makes_a_sane_report(spark: SparkSession, tmp_path: Path, history: Fill) -> None:
    told = Told(spark, tmp_path, history, [])
    assert len(story(told.gathered)) == 10
    assert Page(told.text).active == []
    words = "".join(Page(told.text).words)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b|1970|NaT", words)
    assert ("Commits" in words) == (history is not nothing)
    if history is nothing:
        for name in GOLD:
            assert told.warehouse.gold(spark, name).count() == (name == "build_info")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_browser_shows_it_without_trouble(
    told: Told, tmp_path: Path, width: int, scheme: str
) -> None:
    if chromium() is None:
        lacking("there is no Chromium")
    async with tab(tmp_path) as page:
        await page.open(told.file, width, scheme)
        assert await page.evaluate("document.title") != "owned"
        assert await page.evaluate("innerWidth") == width
        root = "document.documentElement"
        assert await page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        visible = (
            "[...document.querySelectorAll('svg.plot')].filter(plot => plot.getBoundingClientRect().width)"
        )
        assert await page.evaluate(f"{visible}.length") >= 10
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
