"""Connections that have requests left when their time is up, and who goes on when.

Everything is answered on one loop, so that whoever asks for much at once keeps everybody else waiting. A connection
may therefore work for `SLICE_NS` before it has to let others go on. What it has left is done in the next
iterations of the loop, one slice in each, and round robin where there are several such connections. Between two of
them the loop reads every socket that has something, so a connection that asks for little is answered after one
slice of somebody else's work, however many of those there are.

Many connections that ask for a little too much at the same instant are held to the same: once an iteration has
taken `ITERATION_NS`, whoever comes after that waits in line.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

SLICE_NS: Final = 5_000_000
"""How long one connection works in an iteration of the loop. It ends with the request, however long that is."""
ITERATION_NS: Final = 20_000_000
"""How long the slices of one iteration may take together."""


class Worker(Protocol):
    """A connection with requests to work on."""

    def go_on(self) -> None:
        """Works for a slice; it may come back with what is left."""


class RunQueue:
    """All connections of one loop that wait for their time."""

    __slots__ = ("_is_due", "_is_iteration_watched", "_loop", "_spent_ns", "_waiting", "is_iteration_over")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Worker] = deque()
        self._is_due = False
        self._is_iteration_watched = False
        self._spent_ns = 0
        self.is_iteration_over = False
        """Whether this iteration of the loop has taken so long that what comes now has to wait."""

    def __len__(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    def add(self, worker: Worker) -> None:
        """Lets a connection go on in a later iteration. It waits once: who asks sees to that."""
        self._waiting.append(worker)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def remove(self, worker: Worker) -> None:
        """A connection that waits is gone."""
        self._waiting.remove(worker)

    def spent(self, duration_ns: int) -> None:
        """A connection has worked for so long, in this iteration."""
        self._spent_ns += duration_ns
        self.is_iteration_over = self._spent_ns >= ITERATION_NS
        if not self._is_iteration_watched:
            self._is_iteration_watched = True
            self._loop.call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_iteration_watched = self.is_iteration_over = False
        self._spent_ns = 0

    def _run(self) -> None:
        self._is_due = False
        if not self._waiting:
            return
        worker = self._waiting.popleft()
        if self._waiting:
            self._is_due = True
            self._loop.call_soon(self._run)
        worker.go_on()
