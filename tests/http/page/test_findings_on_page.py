"""Findings, operations and failovers on the page: causes come first, buttons act, and the view stays."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from groupd_client import Broker
from pytest_groupd.daemon import SpawnedDaemon

from tests.browser import Tab
from tests.clients.command import COMMAND
from tests.http.page.daemon_page import press_key, shown, text_of
from tests.shared_fixtures import shared

CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "client.id": sys.argv[2]})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.1)
"""
LONG_GROUP = "order-fulfilment-reconciliation-service-eu-central-1-production-blue-green-canary"
LONG_NAME = "order-fulfilment-reconciliation-worker-eu-central-1a-{}-7f9c4d5b6-x2x"
HEADLINE_LINES = """(() => { const shown = document.querySelector('.headline');
  return shown.clientHeight / parseFloat(getComputedStyle(shown).lineHeight); })()"""
WATCH_VIEW = """window.lost = 0; window.watch = setInterval(() => {
  if (!document.querySelector('.members') || document.querySelectorAll('.row').length < 1) window.lost += 1;
}, 5); true"""

SLOW_LINK = """{ const send = window.fetch; window.fetch = async (...call) => {
  await new Promise((done) => setTimeout(done, 200)); return send(...call); }; }"""
REPLACED_ANSWERS = """{ const send = window.fetch; window.loads = 0; window.loading = 0;
window.fetch = async (url, options) => {
  if (url.endsWith("/explain")) { window.loads += 1; }
  window.loading += 1;
  try {
    const answer = await send(url, options);
    const found = await answer.clone().json();
    const other = %s;
    return other ? new Response(JSON.stringify(other), { status: other.type ? 503 : 200 }) : answer;
  } finally { window.loading -= 1; }
}; }"""
HELD_POLLS = """{ const set = window.setTimeout; window.polls = [];
window.setTimeout = (call, ms) => (ms === 250 ? window.polls.push(call) && 0 : set(call, ms)); }"""


def _runs(daemon: SpawnedDaemon) -> bool:
    return daemon.describe_end() is None


@shared(_runs, scope="module")
def daemon() -> Iterator[SpawnedDaemon]:
    with SpawnedDaemon(COMMAND, []) as daemon:
        daemon.ensure()
        yield daemon


def three_members(broker: Broker) -> None:
    """Create the group billing with alice, bob and carol, which groupd plays."""
    group = broker.group("billing")
    for members, name in enumerate(("alice", "bob", "carol"), start=1):
        group.stand_in(name, ["orders"])
        group.wait(state="Stable", members=members)


@contextmanager
def three_consumers(bootstrap: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run alice, bob and carol, members of billing, in processes of their own."""
    consumers = {
        name: subprocess.Popen([sys.executable, "-c", CONSUMER, bootstrap, name])
        for name in ("alice", "bob", "carol")
    }
    try:
        yield consumers
    finally:
        for consumer in consumers.values():
            consumer.kill()
            consumer.wait()


@pytest.fixture(autouse=True)
def plugin_mark(pytestconfig: pytest.Config) -> None:
    """Register the mark of pytest-groupd, which copied tests have."""
    pytestconfig.addinivalue_line("markers", "groupd: the broker of a copied test")


def run_copied_test(daemon: SpawnedDaemon, text: str) -> Any:
    """Run a test that the page copied, with a broker of its own, and return the group's description."""
    found: dict[str, Any] = {}
    exec(compile(text, "copied", "exec"), found)
    (test,) = [each for name, each in found.items() if name.startswith("test_")]
    (mark,) = test.pytestmark
    with daemon.namespace(topics=mark.kwargs["topics"]) as broker:
        test(broker)
        return broker.groups()


async def click(page: Tab, label: str) -> None:
    """Focus a button and click it."""
    is_named = f"(each) => (each.ariaLabel || each.innerText) === {label!r}"
    button = f"[...document.querySelectorAll('button')].find({is_named})"
    await page.until(button)
    await page.evaluate(f"{{ const found = {button}; found.focus(); found.click(); true }}")


async def test_a_killed_consumer_is_the_headline_with_the_button_that_removes_it(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    with daemon.namespace("story", topics={"orders": 6}) as broker:
        group = broker.group("billing")
        with three_consumers(broker.bootstrap) as consumers:
            group.wait(state="Stable", members=3, owned=["orders"], within="60s")
            async with shown(daemon.url, "#/story/billing", tmp_path) as page:
                assert "Stable" in await page.until(text_of(".headline"))
                consumers["bob"].kill()
                await page.until("document.querySelector('.worst')")
                headline = await page.evaluate(text_of(".worst"))
                for fact in ("bob is disconnected", "closed", "session ends in", "no reader", "Expire bob"):
                    assert fact in headline
                assert "bob is disconnected" in await page.until(text_of(".row .trouble"))
                members_top, generations_top = await page.evaluate(
                    "['p-members', 'p-generations'].map("
                    "(id) => document.getElementById(id).getBoundingClientRect().top)"
                )
                assert members_top < generations_top
                assert members_top < 800
                await click(page, "Expire bob")
                await page.until("document.querySelector('.said').innerText === 'Expire bob: done.'")
                group.wait(state="Stable", members=2, absent=["bob"], owned=["orders"], within="30s")
                await page.until(
                    "document.querySelectorAll('.members tbody tr').length === 2"
                    " && !document.querySelector('.worst, .row .trouble')"
                    # The page loads the group some time after its event: until then it shows the open rebalance.
                    " && document.querySelector('.headline').innerText.includes('Stable')"
                )
                assert "bob" not in await page.evaluate(text_of(".members"))
                assert await page.until("document.activeElement.id") == "group-name"
                assert page.troubles == []


def list_troubles_of_failover(page: Tab) -> list[str]:
    """Return the troubles of a page without the 503s, which Chromium logs for a load that a failover interrupts."""
    return [trouble for trouble in page.troubles if "a status of 503" not in trouble]


async def test_a_failover_keeps_the_view_and_says_how_long_it_took(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    with daemon.namespace("moving", topics={"orders": 6}) as broker:
        three_members(broker)
        async with shown(daemon.url, "#/moving/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            await page.evaluate(WATCH_VIEW)
            await asyncio.to_thread(broker.group("billing").failover, not_coordinator="1s", loading="1s")
            said = await page.until("document.querySelector('.said:not([hidden])').innerText")
            assert re.match("groupd serves billing again after ", said)
            await click(page, "Move the coordinator")
            await page.until("document.querySelector('.said').innerText.includes('served again after')")
            assert await page.evaluate("document.activeElement.innerText") == "Move the coordinator"
            assert await page.evaluate("window.lost") == 0
            assert list_troubles_of_failover(page) == []


async def test_a_failover_ends_on_the_page_over_a_link_that_is_slower_than_its_refreshes(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    with daemon.namespace("slow", topics={"orders": 6}) as broker:
        three_members(broker)
        async with shown(daemon.url, "#/slow/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            await page.evaluate(f"{SLOW_LINK} true")
            failover = asyncio.create_task(
                asyncio.to_thread(broker.group("billing").failover, not_coordinator="2s", loading="2s")
            )
            await page.until("document.querySelector('.banner.away')")
            await failover
            await page.until("!document.querySelector('.banner.away')")
            assert re.match("groupd serves billing again after ", await page.evaluate(text_of(".said")))
            assert list_troubles_of_failover(page) == []


async def test_the_page_loads_an_absent_group_often_only_while_someone_may_see_it_return(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    """A hidden page does not load it again, and after ten seconds the refresh of the page is often enough."""
    with daemon.namespace("absent", topics={"orders": 6}) as broker:
        three_members(broker)
        async with shown(daemon.url, "#/absent/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            away = "url.endsWith('/explain') && { ...found, state: null, detail: 'billing is away.' }"
            await page.evaluate(f"{REPLACED_ANSWERS % away} {HELD_POLLS} true")
            await page.until("document.querySelector('.banner.away') && window.polls.length")
            hidden = """(async () => {
              const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
              Object.defineProperty(document, "hidden", { value: true, configurable: true });
              while (window.loading) await frame();
              const before = window.loads;
              window.polls.at(-1)();
              for (let frames = 0; frames < 5; frames += 1) await frame();
              const during = window.loads - before;
              Object.defineProperty(document, "hidden", { value: false, configurable: true });
              window.polls.at(-1)();
              while (window.loads === before) await frame();
              return during;
            })()"""
            assert await page.evaluate(hidden) == 0
            await page.until("!window.loading")
            await page.evaluate("{ const now = Date.now; Date.now = () => now() + 11000; true }")
            loads, polls = await page.evaluate("[window.loads, window.polls.length]")
            await page.until(f"window.loads >= {loads} + 2 && !window.loading")
            assert await page.evaluate("window.polls.length") == polls
            assert page.troubles == []


async def test_old_data_beside_a_problem_has_a_banner(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("stale", topics={"orders": 6}) as broker:
        three_members(broker)
        async with shown(daemon.url, "#/stale/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            problem = (
                "url.endsWith('/offsets') && { type: 'urn:groupd:not-possible', detail: 'No offsets today.' }"
            )
            await page.evaluate(f"{REPLACED_ANSWERS % problem} true")
            assert "No offsets today." in await page.until(text_of(".banner.away"))
            assert await page.evaluate("document.querySelectorAll('.members tbody tr').length") == 3
            assert page.troubles == []


async def test_findings_of_one_kind_are_different_rows_and_end_with_one_mark(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    async with shown(daemon.url, "", tmp_path) as page:
        texts, is_same_row = await page.evaluate(
            """(async () => {
              const { OtherFindings } = await import("./static/findings.js");
              const { html, render } = await import("./static/vendor/preact.js");
              const place = document.createElement("div");
              const rows = () => [...place.querySelectorAll("li")];
              const draw = (topics) => render(html`<${OtherFindings} at=${{ group: { group_id: "g", members: [] } }}
                told=${{ findings: topics.map((topic) => ({ kind: "no_such_topic", blocks: false, members: [],
                  topics: [topic], sentence: `no ${topic}`, hint: "Is it a typo?", action: null })) }} />`, place);
              draw(["one", "two"]);
              const [, second] = rows();
              const texts = rows().map((row) => row.textContent.trim());
              draw(["two"]);
              return [texts, rows()[0] === second];
            })()"""
        )
        assert texts == ["no one. Is it a typo?", "no two. Is it a typo?"]
        assert is_same_row


async def test_a_copied_test_runs_and_names_members_as_a_test_knows_them(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    with daemon.namespace("copied", topics={"orders": 6}) as broker:
        three_members(broker)
        ids = [member.member_id for member in broker.group("billing").members]
        async with shown(daemon.url, "#/copied/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            await page.evaluate(
                """window.copied = []; Object.defineProperty(navigator, "clipboard",
                { value: { writeText: async (text) => { window.copied.push(text); } } }); true"""
            )
            await click(page, "Copy “Expire bob” as pytest")
            await click(page, "Copy “Advance the clock” as pytest")
            expire, advance = await page.until("window.copied.length === 2 && window.copied")
    assert 'group.member("bob").expire()' in expire
    assert 'group.clock.advance("45s")' in advance
    for text in (expire, advance):
        assert not any(member_id in text for member_id in ids)
        (group,) = run_copied_test(daemon, text)
        assert group.group_id == "billing"


async def test_without_groups_the_page_shows_lines_that_work(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("empty", topics={"orders": 6}) as broker:
        async with shown(daemon.url, "#/empty", tmp_path) as page:
            await page.until("document.querySelectorAll('pre').length === 2")
            kcat, test = await page.evaluate(
                "[...document.querySelectorAll('pre')].map((each) => each.innerText)"
            )
            assert f"kcat -b {broker.bootstrap}" in kcat
            assert kcat.endswith("-G billing orders")
            assert "6 partitions" in await page.evaluate(text_of(".welcome"))
            (group,) = run_copied_test(daemon, test)
            assert group.group_id == "billing"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.timeout(400)
async def test_a_large_group_with_long_names_stays_readable(
    daemon: SpawnedDaemon, tmp_path: Path, width: int
) -> None:
    with daemon.namespace(f"long-{width}", topics={"orders": 6}) as broker:
        group = broker.group(LONG_GROUP)
        for number in range(30):
            group.stand_in(LONG_NAME.format(f"{number:02}"), ["orders"])
        group.wait(state="Stable", members=30, within="60s")
        async with shown(daemon.url, f"#/long-{width}/{LONG_GROUP}", tmp_path, width) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 30")
            assert await page.evaluate(HEADLINE_LINES) < (2.1 if width == 1280 else 6.1)
            root = "document.documentElement"
            assert await page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
            name = "document.querySelector('.members tbody th span[title*=fulfilment]')"
            assert await page.evaluate(f"{name}.title") == LONG_NAME.format("00")
            assert "…" in await page.evaluate(f"{name}.innerText")
            assert page.troubles == []


async def test_buttons_headings_and_the_skip_link_have_names(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("access", topics={"orders": 6}) as broker:
        three_members(broker)
        async with shown(daemon.url, "#/access/billing", tmp_path) as page:
            await page.until("document.querySelectorAll('.members tbody tr').length === 3")
            names = await page.evaluate(
                "[...document.querySelectorAll('button:not(.bar)')].map((each) => each.ariaLabel || each.innerText)"
            )
            assert len(names) == len(set(names))
            assert {"Expire bob", "Disconnect bob", "Freeze the clock"} <= set(names)
            headings = await page.evaluate(
                "[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))"
            )
            assert headings[:3] == [1, 2, 2]
            assert set(headings[3:]) == {3}
            await press_key(page, "Tab", 9)
            assert "Skip" in await page.evaluate("document.activeElement.innerText")
            await press_key(page, "Enter", 13, text="\r")
            assert await page.evaluate("document.activeElement.id") == "content"


async def test_the_lag_has_a_history_and_epochs_are_no_pauses(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("times", topics={"orders": 6}) as broker:
        broker.group("billing").set_offsets({"orders-0": 0})
        broker.group("billing").stand_in("alice", ["orders"], group_protocol="consumer")
        broker.group("billing").wait(state="Stable", members=1)
        async with shown(daemon.url, "#/times/billing", tmp_path) as page:
            await page.until("document.querySelector('.lag .line')")
            times = await page.evaluate(
                "[...document.querySelectorAll('.lag .times span')].map((each) => each.innerText)"
            )
            assert all(len(time.split(":")) == 3 and int(time[:2]) < 24 for time in times)
            assert "records" in await page.evaluate(text_of(".lag .unit"))
            assert "settled in" in await page.evaluate("document.querySelector('.bar').ariaLabel")
            await page.call("Page.reload")
            await page.until("document.querySelector('.lag .line')")
            again = await page.evaluate("document.querySelector('.lag .times span').innerText")
            assert again == times[0], "the history begins before the page was opened"
            broker.group("billing").clock.advance("1h")
            await page.until(
                "document.querySelector('#p-clock').closest('section').innerText.includes('group time')"
            )
            assert page.troubles == []


async def test_a_lag_without_a_history_is_not_called_a_lack_of_offsets(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    """The 1,001st group and later ones have a lag and no history. A gap in the samples is a gap in the line."""
    with daemon.namespace("chart", topics={"orders": 6}) as broker:
        broker.group("billing").set_offsets({"orders-0": 0})
        async with shown(daemon.url, "#/chart/billing", tmp_path) as page:
            await page.until("document.querySelector('.lag .line')")
            lines = """(async () => {
              const { Lag } = await import("./static/lag.js");
              const { html, render } = await import("./static/vendor/preact.js");
              const draw = (times, lag) => {
                const place = document.createElement("div");
                render(html`<${Lag} lag=${lag} points=${times.map((at_ms) => ({ at_ms, lag: 1 }))} />`, place);
                const line = place.querySelector(".line");
                return line ? line.getAttribute("d").match(/M/g).length : place.textContent;
              };
              const steps = [0, 5000, 10000];
              return [draw([], 7), draw([], null), draw([0], 7), draw(steps, 7),
                draw([...steps, 900000, 905000, 910000], 7)];
            })()"""
            unknown, without, *runs = await page.evaluate(lines)
            assert unknown != without
            assert "no committed offsets" in without
            assert "no committed offsets" not in unknown
            assert runs == [1, 1, 2]
            assert page.troubles == []
