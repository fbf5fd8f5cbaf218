"""A headless Chromium, driven through its DevTools protocol."""

import asyncio
import contextlib
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LISTENING = re.compile(r"DevTools listening on ws://([^/]+)/")
START_S = 60.0
ANSWER_S = 120.0


def chromium() -> str | None:
    """Where it is; None when the machine has none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page. `troubles` collects script errors, messages on the console and anything fetched from elsewhere."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.own = ("file:", "data:")
        """How the addresses begin that are not elsewhere."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self.troubles: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command; events that come meanwhile are looked through."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (message := await self._event()).get("id") != number:
            pass
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    async def _event(self) -> dict[str, Any]:
        """The next message of the browser."""
        event: dict[str, Any] = await self._socket.receive_json(timeout=ANSWER_S)
        self._notice(event)
        return event

    def _notice(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method", ""), event.get("params", {})
        if method in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}:
            self.troubles.append(str(parameters))
        if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(self.own):
            self.troubles.append(parameters["request"]["url"])

    async def open(self, page: Path, width: int, scheme: str = "light") -> None:
        """Show a file at a width in pixels and wait until it is all there."""
        await self.go_to(page.as_uri(), width, scheme)

    async def go_to(self, url: str, width: int, scheme: str = "light", height: int = 900) -> None:
        """The same of an address."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=media)
        await self.call("Page.navigate", url=url)
        while (await self._event()).get("method") != "Page.loadEventFired":
            pass

    async def start_trace(self) -> None:
        """Record the tasks of the page until `stop_trace`."""
        await self.call("Tracing.start", traceConfig={"includedCategories": ["toplevel", "__metadata"]})

    async def stop_trace(self) -> list[dict[str, Any]]:
        """Return the events that the browser recorded since `start_trace`, in its trace event format."""
        await self.call("Tracing.end")
        events: list[dict[str, Any]] = []
        while (message := await self._event()).get("method") != "Tracing.tracingComplete":
            if message.get("method") == "Tracing.dataCollected":
                events += message["params"]["value"]
        return events

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The value of an expression once it is true. Looks again with each frame."""
        value = await self.evaluate(_UNTIL.format(expression=expression, within_ms=int(ANSWER_S * 500)))
        assert value, f"the page did not come to: {expression}"
        return value


_UNTIL = """new Promise((found) => {{
  const until = Date.now() + {within_ms};
  const look = () => {{
    let value;
    try {{ value = {expression}; }} catch (error) {{ value = false; }}
    if (value instanceof Node) value = true;
    if (value || Date.now() > until) found(value);
    else setTimeout(look, 20);
  }};
  look();
}})"""


@contextlib.asynccontextmanager
async def tab(profile: Path) -> AsyncIterator[Tab]:
    """A page of a browser of its own, with an empty profile in that directory."""
    path = chromium()
    assert path is not None
    command = [
        *(
            path,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ),
        *(
            "--disable-background-networking",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
        ),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        url = await _address(process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{url}/json/list") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    """Host and port of the DevTools, from what the browser prints about them."""
    assert process.stderr is not None
    async with asyncio.timeout(START_S):
        async for line in process.stderr:
            if found := LISTENING.search(line.decode(errors="replace")):
                return found[1]
    raise AssertionError("the browser ended before it listened")
