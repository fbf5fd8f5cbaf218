"""The page in a browser: its content matches the API, its buttons work, and it executes no foreign markup."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from pytest_groupd.daemon import SpawnedDaemon

from tests.http.page.daemon_page import MARKUP, axe, browser_tab, daemon_in_trouble, show, shown, text_of
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.shared_fixtures import shared

SERIOUS = ("serious", "critical")
MAX_TASK_CPU_MS = 150
RECORD_COPIES = """window.copied = []; Object.defineProperty(navigator, "clipboard",
  { value: { writeText: async (text) => { window.copied.push(text); } } }); true"""


def _runs(daemon: SpawnedDaemon) -> bool:
    return daemon.describe_end() is None


@shared(_runs, scope="module")
def daemon() -> Iterator[SpawnedDaemon]:
    yield from daemon_in_trouble()


def list_expected_rows(daemon: SpawnedDaemon) -> list[list[str]]:
    """Return the ids and states of the groups of the board: the greatest trouble first, then the greatest lag, then
    in the order of their ids.
    """
    with urlopen(f"{daemon.url}/v1/board", timeout=60) as answer:
        groups = json.load(answer)["groups"]

    def find_place(group: dict[str, Any]) -> tuple[int, int, str]:
        trouble = (
            3 if group["worst"] else 2 if group["violations"] else int((group["rebalancing_ms"] or 0) > 5000)
        )
        return -trouble, -(group["lag"] or 0), group["group_id"]

    return [[group["group_id"], group["state"]] for group in sorted(groups, key=find_place)]


async def test_the_list_shows_what_the_api_says(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    async with shown(daemon.url, "", tmp_path) as page:
        # groupd reports a silent member when its heartbeat is late, some seconds after the start of the rebalance.
        assert "silent" in await page.until(text_of(".row .trouble"))
        await page.until("document.querySelectorAll('.row').length === 4")
        rows = await page.evaluate(
            "[...document.querySelectorAll('.row')].map((row) => "
            "[row.querySelector('.name').innerText, row.querySelector('.state').innerText])"
        )
        assert rows == list_expected_rows(daemon)
        assert rows[0] == ["stuck", "PreparingRebalance"], "the group in trouble is the first"
        await page.evaluate(
            "const box = document.querySelector('input[type=search]'); box.value = 'bil';"
            "box.dispatchEvent(new Event('input', { bubbles: true })); true"
        )
        await page.until("document.querySelectorAll('.row').length === 1")
        assert page.troubles == []


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_group_is_shown_at_every_width(
    daemon: SpawnedDaemon, tmp_path: Path, width: int, scheme: str
) -> None:
    async with shown(daemon.url, "#/default/billing", tmp_path, width, scheme) as page:
        await page.until("document.querySelectorAll('.members tbody tr').length === 3")
        group = daemon.group("billing")
        assert await page.evaluate(text_of(".title .state")) == group.state
        assert (
            await page.evaluate(text_of(".machine .lit text").replace("innerText", "textContent")) == "Stable"
        )
        clients = await page.evaluate(
            "[...document.querySelectorAll('.members tbody th')].map((cell) => cell.innerText.split(/\\s/)[0])"
        )
        assert sorted(clients) == sorted(member.client_id for member in group.members)
        bars = await page.evaluate("document.querySelectorAll('.bar').length")
        assert bars == len(group.ledger)
        assert group.ledger[-1].cause in await page.evaluate(text_of(".entry"))
        root = "document.documentElement"
        assert await page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        assert page.troubles == []


async def test_a_group_that_is_stuck_says_for_whom_it_waits(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    async with shown(daemon.url, "#/default/stuck", tmp_path) as page:
        await page.until("document.querySelector('.machine .lit.busy')")
        await page.until("document.querySelector('.worst')")
        assert "silent is connected" in await page.until(text_of(".headline"))
        assert "JoinGroup of silent" in await page.evaluate(text_of(".told"))
        assert "silent" in await page.evaluate(text_of(".awaited"))


async def test_a_button_does_what_the_same_curl_does(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    group = daemon.group("reports")
    async with shown(daemon.url, "#/default/reports", tmp_path) as page:
        button = "[...document.querySelectorAll('#p-clock')].map((each) => each.closest('section'))[0]"
        await page.until(f"{button}.querySelector('.split button')")
        await page.evaluate(RECORD_COPIES)
        copies = f"{button}.querySelector('.split').querySelectorAll('.copy')"
        await page.evaluate(f"{copies}.forEach((each) => each.click()); true")
        copied = await page.until("window.copied.length === 2 && JSON.stringify(window.copied)")
        curl, test = json.loads(copied)
        assert daemon.url in curl
        assert "/v1/groups/reports/clock" in curl
        assert "group.clock.freeze()" in test
        assert not group.clock.state.frozen
        await page.evaluate(
            f"{{ const first = {button}.querySelector('.split button'); first.focus(); first.click(); true }}"
        )
        await page.until(f"{button}.querySelector('.split button').innerText === 'Run'")
        assert await page.evaluate("document.activeElement.innerText") == "Run", "the focus stays"
        assert group.clock.state.frozen
        group.clock.reset()
        assert page.troubles == []


async def test_markup_in_names_is_text(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    async with shown(daemon.url, f"#/default/{quote(MARKUP, safe='')}", tmp_path) as page:
        assert await page.until(text_of("#group-name")) == MARKUP
        await page.until("document.querySelector('.members')")
        assert await page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
        assert page.troubles == []


async def test_an_address_with_a_malformed_escape_is_taken_as_it_is_written(
    daemon: SpawnedDaemon, tmp_path: Path
) -> None:
    """At the first load, and after an edit of the address of an open page."""
    async with shown(daemon.url, "#/default/%zz", tmp_path) as page:
        assert await page.until(text_of("#group-name")) == "%zz"
        for group in ("100%", "%ED%A0%80", "a%20b%"):
            await page.evaluate(f"location.hash = '#/default/{group}'; true")
            await page.until(f"{text_of('#group-name')} === '{group}'")
        await page.evaluate("location.hash = '#/%zz'; true")
        assert "%zz" in await page.until(text_of(".banner.loss"))
        # Chromium logs the 404s of the unknown group and namespace.
        assert [trouble for trouble in page.troubles if "'source': 'network'" not in trouble] == []


async def test_a_page_whose_daemon_is_gone_says_so_and_one_that_is_back_goes_on(tmp_path: Path) -> None:
    for daemon in daemon_in_trouble():
        async with shown(daemon.url, "#/default/billing", tmp_path) as page:
            await page.until("document.querySelector('.members')")
            process = daemon._process
            assert process is not None
            process.kill()
            process.wait()
            await page.until("document.querySelector('.banner.loss')")
            assert await page.evaluate(text_of("#group-name")) == "billing"


async def test_a_read_only_daemon_says_how_it_would_not_be(tmp_path: Path) -> None:
    from tests.clients.command import COMMAND

    with SpawnedDaemon(COMMAND, ["control.enable=false"]) as daemon:
        daemon.ensure()
        async with shown(daemon.url, "", tmp_path) as page:
            assert "control.enable" in await page.until(text_of(".banner"))


async def test_namespaces_are_chosen(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("elsewhere", topics={"orders": 2}) as broker:
        broker.group("mine").stand_in("a", ["orders"])
        broker.group("mine").wait(state="Stable", members=1)
        async with shown(daemon.url, "#/elsewhere", tmp_path) as page:
            assert await page.until(text_of(".row .name")) == "mine"
            names = "[...document.querySelectorAll('.head option')].map((each) => each.value)"
            assert await page.evaluate(names) == ["default", "elsewhere"]


async def test_nothing_serious_is_found_by_axe(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    try:
        script = axe()
    except CannotBuild as reason:
        lacking(str(reason))
    places = (
        ("", 1280, "light"),
        ("#/default/billing", 1280, "light"),
        ("#/default/stuck", 1280, "dark"),
        ("#/default/stuck", 390, "light"),
        ("#api", 1280, "light"),
    )
    for number, (where, width, scheme) in enumerate(places):
        async with shown(daemon.url, where, tmp_path / str(number), width, scheme) as page:
            if where.startswith("#/"):
                await page.until("document.querySelector('.members')")
            await page.evaluate(f"{script}; true")
            found = await page.evaluate("axe.run().then((result) => JSON.stringify(result.violations))")
            serious = [
                (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
                for each in json.loads(found)
                if each["impact"] in SERIOUS
            ]
            assert serious == []


async def test_everything_can_be_reached_with_the_keyboard(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    async with shown(daemon.url, "", tmp_path) as page:
        await page.until("document.querySelectorAll('.row').length === 4")
        tab_key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
        for _ in range(20):
            for kind in ("keyDown", "keyUp"):
                await page.call("Input.dispatchKeyEvent", type=kind, **tab_key)
            if await page.evaluate("document.activeElement.matches('.row')"):
                break
        name = await page.evaluate("document.activeElement.querySelector('.name').innerText")
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        await page.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
        await page.call("Input.dispatchKeyEvent", type="keyUp", **enter)
        assert await page.until(text_of("#group-name")) == name


@pytest.mark.timeout(400)
async def test_many_groups_and_members_never_hold_the_page(daemon: SpawnedDaemon, tmp_path: Path) -> None:
    with daemon.namespace("crowd", topics={"orders": 8}) as broker:
        for number in range(200):
            for member in range(5):
                broker.group(f"group-{number:03}").stand_in(f"client-{member}", ["orders"])
        broker.group("group-199").wait(state="Stable", members=5, within="60s")
        async with browser_tab(tmp_path) as page:
            await page.start_trace()
            await show(page, daemon.url, "#/crowd")
            await page.until("document.querySelectorAll('.row').length === 200")
            await page.evaluate("location.hash = '#/crowd/group-100'; true")
            await page.until("document.querySelectorAll('.members tbody tr').length === 5")
            events = await page.stop_trace()
            assert page.troubles == []
    assert longest_task_cpu_ms(events) < MAX_TASK_CPU_MS


def longest_task_cpu_ms(events: list[dict[str, Any]]) -> float:
    """Return the CPU time of the longest task of the main thread of a page, in milliseconds.

    The browser reports it as `tdur`, in microseconds. Time in which the machine does other work does not count.
    """
    main_threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    cpu_us = [
        event["tdur"] for event in events if (event["pid"], event["tid"]) in main_threads and "tdur" in event
    ]
    assert cpu_us, "the trace has no task of a page"
    longest_us: float = max(cpu_us)
    return longest_us / 1000
