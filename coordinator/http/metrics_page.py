"""What /metrics and /metrics/groups say: gathered on the loop, in slices, and written in a thread."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from coordinator import clock
from coordinator.console.control_metrics import ControlCollector
from coordinator.console.group_metrics import GroupsCollector
from coordinator.console.metrics import FiguresCollector
from coordinator.control.control import Control
from coordinator.control.faults.patterns import names_pattern
from coordinator.control.shared import Shared
from coordinator.printable_text import escape_unprintable
from coordinator.server.broker import Broker

CONTENT_TYPE: str = CONTENT_TYPE_LATEST
EVERY_GROUP: str = "*"
_FORMAT_VERSION: Final = "version="
"""In the Accept header of Prometheus, its agents and all that read its format for it."""


class MetricsPage:
    """Of one broker. All methods belong to the event loop's thread."""

    def __init__(self, broker: Broker, control: Control | None) -> None:
        """In: who knows of rebalances, clocks and faults; None: nobody does."""
        self._broker = broker
        self._control = control
        self._process = ProcessCollector(registry=None)
        self._shared = Shared(self._all)
        self._gathering = asyncio.Lock()
        self._rests_until_ns = 0

    async def text(self) -> bytes:
        """The metrics of all groups together, in Prometheus' form. Who asks at the same time shares the work."""
        return await self._shared.get()

    async def groups_text(self, names: Sequence[str] = (EVERY_GROUP,), accept: str = "") -> bytes:
        """Return the metrics of the groups with these names, in which `*` stands for anything.

        `accept` is the request's header. A scraper names the version of the format and gets every name as it is:
        the value of a label is the identity of a series, and the format can only escape line feeds, quotes and
        backslashes. Other readers may show the page at a terminal: they get unprintable characters as escapes.

        One page is made at a time, with a rest as in `Shared`. Raises Problem (bad-request) for invalid names.
        """
        fits = names_pattern(list(names), "/match")
        if self._control is None:
            return b""
        async with self._gathering:
            await asyncio.sleep(max(0, self._rests_until_ns - clock.monotonic_ns()) / 1e9)
            started_ns = clock.monotonic_ns()
            try:
                page = await _written(GroupsCollector(await self._control.group_figures.gather(fits)))
                if _FORMAT_VERSION in accept.lower():
                    return page
                return await asyncio.get_running_loop().run_in_executor(None, _escaped, page)
            finally:
                ended_ns = clock.monotonic_ns()
                self._rests_until_ns = 2 * ended_ns - started_ns

    async def _all(self) -> bytes:
        collectors: list[Collector] = [FiguresCollector(await self._broker.gather_figures())]
        if self._control is not None:
            collectors.append(ControlCollector(await self._control.figures.gather()))
        return await _written(*collectors, self._process)


async def _written(*collectors: Collector) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(None, partial(_write, collectors))


def _write(collectors: Sequence[Collector]) -> bytes:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)


def _escaped(page: bytes) -> bytes:
    """Return the page with unprintable characters as escapes; the format wants their backslashes doubled."""
    text = page.decode()
    if text.replace("\n", "").isprintable():
        return page
    return "\n".join(map(_escaped_line, text.split("\n"))).encode()


def _escaped_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        each if each.isprintable() else escape_unprintable(each).replace("\\", "\\\\") for each in line
    )
