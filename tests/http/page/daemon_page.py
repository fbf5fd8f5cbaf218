"""The page of a daemon in a headless Chromium, with groups of stand-ins."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from groupd_client import Broker
from pytest_groupd.daemon import SpawnedDaemon

from tests.browser import Tab, chromium, tab
from tests.clients.command import COMMAND
from tests.interop import build
from tests.interop.requirement import lacking

MARKUP: Final = "<img src=x onerror=alert(1)>"
AXE: Final = Path(__file__).parent / "axe"


def axe() -> str:
    """The checker's script. Raises CannotBuild."""
    return Path(axe_build(), "node_modules", "axe-core", "axe.min.js").read_text(encoding="utf-8")


def axe_build() -> str:
    """Installs the checker from its lock file; the directory, which has it in node_modules. Raises CannotBuild."""
    sources = [str(AXE / name) for name in ("package.json", "package-lock.json", ".npmrc")]
    install = [build.tool("npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    return build.once("axe", sources, lambda target: build.run(install, target))


@asynccontextmanager
async def shown(
    url: str, where: str, profile: Path, width: int = 1280, scheme: str = "light"
) -> AsyncIterator[Tab]:
    """Open a browser with the page at a place (#/namespace/group), and wait until it shows a list of groups."""
    async with browser_tab(profile) as page:
        await show(page, url, where, width, scheme)
        yield page


@asynccontextmanager
async def browser_tab(profile: Path) -> AsyncIterator[Tab]:
    """Open a browser with an empty tab. Skip the test on a machine without Chromium."""
    if chromium() is None:
        lacking("there is no Chromium")
    async with tab(profile) as page:
        yield page


async def show(page: Tab, url: str, where: str, width: int = 1280, scheme: str = "light") -> None:
    """Show the page at a place (#/namespace/group) in a tab, and wait until it shows a list of groups."""
    page.own = (url, "data:")
    await page.go_to(f"{url}/{where}", width, scheme)
    await page.until("document.querySelector('.row, .groups .nothing')")


def daemon_in_trouble() -> Iterator[SpawnedDaemon]:
    """Start a daemon with a stuck group, a group that lost a member, and a group whose name is markup."""
    with SpawnedDaemon(COMMAND, []) as daemon:
        daemon.ensure()
        daemon.topic("orders", 6)
        trouble(daemon)
        yield daemon


def trouble(broker: Broker) -> None:
    """Makes the groups."""
    billing = broker.group("billing")
    for members, name in enumerate(("alice", "bob", "carol"), start=1):
        billing.stand_in(name, ["orders"])
        billing.wait(state="Stable", members=members)
    billing.member("bob").expire()
    billing.wait(state="Stable", members=3, generation={"min": 4})
    billing_offsets = {f"orders-{number}": 0 for number in range(6)}
    reports = broker.group("reports")
    member = reports.stand_in("reporter", ["orders"])
    reports.wait(state="Stable", members=1)
    member.leave()
    reports.wait(state="Empty")
    reports.set_offsets(billing_offsets)
    stuck = broker.group("stuck")
    stuck.stand_in("one", ["orders"], rebalance_timeout="1h")
    stuck.wait(state="Stable", members=1)
    # The group waits for its silent member longer than all tests of the module take.
    silent = stuck.stand_in("silent", ["orders"], rebalance_timeout="1h", session_timeout="30m")
    stuck.wait(state="Stable", members=2)
    silent.stall()
    stuck.stand_in("late", ["orders"], rebalance_timeout="1h")
    stuck.wait(state="PreparingRebalance")
    broker.group(MARKUP).stand_in(MARKUP, ["orders"], group_protocol="consumer")
    broker.group(MARKUP).wait(state="Stable", members=1)


async def press_key(page: Tab, key: str, code: int, **fields: str) -> None:
    """Press a key and let it go. `code` is its Windows virtual key code."""
    values = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    await page.call("Input.dispatchKeyEvent", type="keyDown", **values, **fields)
    await page.call("Input.dispatchKeyEvent", type="keyUp", **values)


def text_of(selector: str) -> str:
    """An expression for the text of an element."""
    return f"(document.querySelector({selector!r}) || {{}}).innerText"
