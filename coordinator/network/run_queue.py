"""Shares the event loop fairly between connections: a queue of connections with unprocessed requests, and one
write for each connection in an iteration.

All requests are processed on one event loop. A connection may work for `SLICE_NS`; the rest of its requests
is processed in later iterations, one slice in each, round robin between such connections. Between two slices
the loop reads every ready socket, so a connection with few requests waits for at most one slice. Once an
iteration has used `ITERATION_NS`, further connections queue as well.
Responses become ready in groups: one sync releases the commits of many connections, one completed join phase
answers every member. `WriteBatcher` writes to each connection once the group is complete.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

_LOG: Final = logging.getLogger("SocketServer")

SLICE_NS: Final = 5_000_000
"""How long one connection works in an iteration of the loop. It ends with the request, however long that is."""
ITERATION_NS: Final = 20_000_000
"""How long the slices of one iteration may take together."""


class QueuedWorker(Protocol):
    """A connection with requests to work on."""

    def run_slice(self) -> None:
        """Works for a slice; it may come back with what is left."""


class RunQueue:
    """All connections of one loop that wait for their time."""

    __slots__ = ("_is_due", "_is_iteration_watched", "_loop", "_used_ns", "_waiting", "is_iteration_over")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[QueuedWorker] = deque()
        self._is_due = False
        self._is_iteration_watched = False
        self._used_ns = 0
        self.is_iteration_over = False
        """Whether this iteration of the loop has taken so long that what comes now has to wait."""

    def __len__(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    def add(self, worker: QueuedWorker) -> None:
        """Lets a connection go on in a later iteration. It waits once: who asks sees to that."""
        self._waiting.append(worker)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def remove(self, worker: QueuedWorker) -> None:
        """A connection that waits is gone."""
        self._waiting.remove(worker)

    def record_time(self, duration_ns: int) -> None:
        """A connection has worked for so long, in this iteration."""
        self._used_ns += duration_ns
        self.is_iteration_over = self._used_ns >= ITERATION_NS
        if not self._is_iteration_watched:
            self._is_iteration_watched = True
            self._loop.call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_iteration_watched = self.is_iteration_over = False
        self._used_ns = 0

    def _run(self) -> None:
        self._is_due = False
        if not self._waiting:
            return
        worker = self._waiting.popleft()
        if self._waiting:
            self._is_due = True
            self._loop.call_soon(self._run)
        worker.run_slice()


class WriteBatcher:
    """Calls of `flush`, one for each key, at the end of the iteration."""

    __slots__ = ("_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._scheduled: list[Callable[[], None]] = []

    def schedule_flush(self, flush: Callable[[], None]) -> None:
        """Calls `flush` once, soon. The caller sees to it that it asks only once."""
        if not self._scheduled:
            self._loop.call_soon(self._flush_all)
        self._scheduled.append(flush)

    def _flush_all(self) -> None:
        due, self._scheduled = self._scheduled, []
        for flush in due:
            try:
                flush()
            except Exception as problem:  # noqa: BLE001 - the other connections get their answers all the same
                _LOG.error("Failed to write to a connection", exc_info=problem)
