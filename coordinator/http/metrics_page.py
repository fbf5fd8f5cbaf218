"""The pages /metrics and /metrics/groups: values collected on the event loop in slices, and rendered in a
thread."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from coordinator.broker.server_view import ServerView
from coordinator.control.coalesced_call import CoalescedCall
from coordinator.control.control_plane import ControlPlane
from coordinator.control.field_parsers import compile_name_pattern
from coordinator.core import clock
from coordinator.core.message_text import escape_unprintable
from coordinator.http.group_metrics import GroupsCollector
from coordinator.http.metric_collectors import ControlCollector, ServerMetricsCollector

CONTENT_TYPE: str = CONTENT_TYPE_LATEST
EVERY_GROUP: str = "*"
_FORMAT_VERSION: Final = "version="
"""The parameter of the Accept header by which Prometheus and compatible scrapers are recognized."""


class MetricsPage:
    """The metrics page of one broker. All methods belong to the thread of the event loop."""

    def __init__(self, broker: ServerView, control: ControlPlane | None) -> None:
        """Create the page. `control` has the metrics of rebalances, clocks and faults; None omits them."""
        self._broker = broker
        self._control = control
        self._process_collector = ProcessCollector(registry=None)
        self._broker_page = CoalescedCall(self._render_broker)
        self._gather_lock = asyncio.Lock()
        self._pause_until_ns = 0

    async def render_broker(self) -> bytes:
        """Return the metrics of all groups together in Prometheus' format. Concurrent callers share the work."""
        return await self._broker_page.get_result()

    async def render_groups(self, names: Sequence[str] = (EVERY_GROUP,), accept: str = "") -> bytes:
        """Return the metrics of the groups with these names, in which `*` matches any characters.

        `accept` is the request's Accept header. A scraper names the version of the format and gets every name
        unchanged: the value of a label is the identity of a series, and the format can only escape line feeds,
        quotes and backslashes. Other readers may show the page on a terminal, so unprintable characters are
        escaped for them.

        Pages are rendered one at a time, with a pause as in `CoalescedCall`. Raises Problem (bad-request) for
        invalid names.
        """
        matches = compile_name_pattern(list(names), "/match")
        if self._control is None:
            return b""
        async with self._gather_lock:
            await asyncio.sleep(max(0, self._pause_until_ns - clock.monotonic_ns()) / 1e9)
            started_ns = clock.monotonic_ns()
            try:
                page = await _render_in_thread(
                    GroupsCollector(await self._control.group_metrics.take_snapshot(matches))
                )
                if _FORMAT_VERSION in accept.lower():
                    return page
                return await asyncio.get_running_loop().run_in_executor(None, _escape_page, page)
            finally:
                ended_ns = clock.monotonic_ns()
                self._pause_until_ns = 2 * ended_ns - started_ns

    async def _render_broker(self) -> bytes:
        collectors: list[Collector] = [ServerMetricsCollector(await self._broker.collect_metrics())]
        if self._control is not None:
            collectors.append(ControlCollector(await self._control.metrics.take_snapshot()))
        return await _render_in_thread(*collectors, self._process_collector)


async def _render_in_thread(*collectors: Collector) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(None, partial(_render, collectors))


def _render(collectors: Sequence[Collector]) -> bytes:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)


def _escape_page(page: bytes) -> bytes:
    """Escape the unprintable characters of a page, with the doubled backslashes that the format requires."""
    text = page.decode()
    if text.replace("\n", "").isprintable():
        return page
    return "\n".join(map(_escape_line, text.split("\n"))).encode()


def _escape_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        each if each.isprintable() else escape_unprintable(each).replace("\\", "\\\\") for each in line
    )
