"""The lag of groups since the first request for it or for the board, for charts.

While there are readers, and for `IDLE_LIMIT_S` after the last one, groupd samples the lag of the first
`MAX_METRIC_GROUPS` groups by id every `SAMPLE_INTERVAL_S`. A group keeps at most `MAX_POINTS` points. When it has
more, it drops every second point and keeps later samples half as often, so that the history reaches back to the
first sample. The history of a deleted group is dropped.
"""

import asyncio
import logging
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from coordinator.broker.group_event_log import EventListener
from coordinator.control.metrics_snapshot import GroupMetricsSource
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.core.wire_name import wire_name
from coordinator.group.group_event_types import GroupDeleted, GroupEvent

SAMPLE_INTERVAL_S: Final = 5.0
IDLE_LIMIT_S: Final = 600.0
"""The sampling ends after this time without a reader. The histories stay; the next reader starts it again."""
MAX_POINTS: Final = 240
MAX_GROUPS: Final = 1_000
"""The maximum number of groups with a history. The groups with the oldest samples are dropped."""

_LOG: Final = logging.getLogger("Control")


@wire_name("LagPoint")
class LagPoint(Struct, frozen=True, kw_only=True):
    """The lag of a group at a time: `at_ms` is Unix time, `lag` a number of records."""

    at_ms: int
    lag: int


@wire_name("LagHistory")
class LagHistory(Struct, frozen=True, kw_only=True):
    """The lag of a group over time, oldest first. It is empty for a group without committed offsets and for a
    group beyond the first 1,000 by id. `is_thinned`: the history is long, so the interval between its points has
    grown."""

    group_id: str
    points: list[LagPoint]
    is_thinned: bool


class LagSeries:
    """The points of one group."""

    __slots__ = ("_lags", "_skipped", "_stride", "_times_ms")

    def __init__(self) -> None:
        self._times_ms = array("q")
        self._lags = array("q")
        self._stride = 1
        """The number of samples for each point."""
        self._skipped = 0

    def add(self, at_ms: int, lag: int) -> None:
        """Add a sample as the newest one; it becomes a point unless the series is thinned."""
        self._skipped += 1
        if self._skipped < self._stride and self._times_ms:
            return
        self._skipped = 0
        self._times_ms.append(at_ms)
        self._lags.append(lag)
        if len(self._lags) > MAX_POINTS:
            self._times_ms, self._lags = self._times_ms[::2], self._lags[::2]
            self._stride *= 2

    @property
    def is_thinned(self) -> bool:
        """Whether the series has dropped points."""
        return self._stride > 1

    def points(self) -> Iterator[LagPoint]:
        """Yield the points, oldest first."""
        for at_ms, lag in zip(self._times_ms, self._lags, strict=True):
            yield LagPoint(at_ms=at_ms, lag=lag)


class LagHistories:
    """The series of the first `MAX_METRIC_GROUPS` groups by id, and of groups that were among them, at most
    `MAX_GROUPS`. All methods belong to the event loop's thread."""

    def __init__(
        self,
        source: GroupMetricsSource,
        subscribe: Callable[[EventListener], None],
        run_queue: RunQueue,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Create the histories. The first reader starts the sampling in a task of `loop`, which takes turns with
        the other work of `run_queue`, and subscribes to the events of groups with `subscribe`.
        """
        self._source = source
        self._subscribe: Callable[[EventListener], None] | None = subscribe
        """Subscribes to the events of groups; None after the first reader. Before it, events need no work."""
        self._run_queue = run_queue
        self._loop = loop
        self._series: OrderedDict[str, LagSeries] = OrderedDict()
        self._sampler: asyncio.Task[None] | None = None
        self._first_sample = asyncio.Event()
        """Set when the running sampler has taken its first sample, and after `close`."""
        self._read_ns = 0
        """The monotonic time of the last reader, in nanoseconds."""
        self._deleted: set[str] = set()
        """The groups that were deleted since the current sample began: its snapshot may still have them."""
        self._is_closed = False

    @property
    def is_sampling(self) -> bool:
        """Whether the sampler runs."""
        return self._sampler is not None

    def note_reader(self) -> None:
        """Keep the sampler running; start it, with a sample at once, if it does not run. After `close` this has no
        effect.
        """
        self._read_ns = clock.monotonic_ns()
        if self._sampler is None and not self._is_closed:
            if self._subscribe is not None:
                self._subscribe(self.on_event)
                self._subscribe = None
            self._first_sample.clear()
            self._sampler = self._loop.create_task(self._sample_until_idle())

    def on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        """Drop the series of a deleted group. This is an `EventListener`."""
        if type(event) is GroupDeleted:
            self._series.pop(event.group_id, None)
            if self._sampler is not None:
                self._deleted.add(event.group_id)

    def close(self) -> None:
        """Stop the sampling for good; a second call has no effect."""
        self._is_closed = True
        self._first_sample.set()
        if self._sampler is not None:
            self._sampler.cancel()
            self._sampler = None

    async def read_history(self, group_id: str) -> LagHistory:
        """Return the history of a group. If the sampler does not run, start it and wait for its first sample."""
        self.note_reader()
        await self._first_sample.wait()
        series = self._series.get(group_id, LagSeries())
        return LagHistory(group_id=group_id, points=list(series.points()), is_thinned=series.is_thinned)

    async def _sample_until_idle(self) -> None:
        has_failed = False
        while True:
            try:
                await self._take_sample()
                has_failed = False
            except Exception as problem:  # noqa: BLE001 - the next sample may succeed
                if not has_failed:
                    _LOG.error("The lag of the groups was not sampled", exc_info=problem)
                has_failed = True
            self._first_sample.set()
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            if clock.monotonic_ns() - self._read_ns > IDLE_LIMIT_S * 1e9:
                self._sampler = None
                return

    async def _take_sample(self) -> None:
        """Add the lag of each group to its series."""
        self._deleted.clear()
        metrics = await self._source.take_snapshot(lambda _: True)
        now_ms = clock.wall_ms()
        budget = TimeBudget(self._run_queue)
        for group in metrics.groups:
            lag = metrics.compute_lag(group)
            if lag is not None and group.group_id not in self._deleted:
                self._series.setdefault(group.group_id, LagSeries()).add(now_ms, lag)
                self._series.move_to_end(group.group_id)
            await budget.checkpoint()
        while len(self._series) > MAX_GROUPS:
            self._series.popitem(last=False)
