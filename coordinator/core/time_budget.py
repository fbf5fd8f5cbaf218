"""A time budget and a run queue that share the event loop between long and short work.

All requests are processed on one event loop. A connection, a request or a job may work for `SLICE_NS`; then the
rest waits in the run queue, which resumes one waiter in each iteration of the loop. Between two slices the loop
reads every ready socket, so a client with a short request waits for at most one slice, however many long requests
there are. Once an iteration has used `ITERATION_NS`, further connections queue as well.

Other requests run at a checkpoint and may change any state. After each `await budget.checkpoint()` the caller
must look up its values again, or hold only values that cannot become stale.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

from coordinator.core import clock

SLICE_NS: Final = 5_000_000
"""The time that one connection, request or job may use in an iteration of the loop, in nanoseconds."""
ITERATION_NS: Final = 20_000_000
"""The time that all slices together may use in one iteration, in nanoseconds."""

T = TypeVar("T")


class QueuedWorker(Protocol):
    """Work that waits in the run queue."""

    def run_slice(self) -> None:
        """Work for a slice. The worker may add itself to the queue again."""


class RunQueue:
    """The long work of one event loop that waits for its turn, in the order in which it was added."""

    __slots__ = ("_is_due", "_is_iteration_watched", "_loop", "_used_ns", "_waiting", "is_iteration_over")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[QueuedWorker] = deque()
        self._is_due = False
        self._is_iteration_watched = False
        self._used_ns = 0
        self.is_iteration_over = False
        """Whether this iteration of the loop is over its limit, so that further connections must wait."""

    def __len__(self) -> int:
        """Return the number of waiting workers."""
        return len(self._waiting)

    def add(self, worker: QueuedWorker) -> None:
        """Run a slice of a worker in a later iteration. The caller adds a worker only once."""
        self._waiting.append(worker)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def remove(self, worker: QueuedWorker) -> None:
        """Remove a worker that waits."""
        self._waiting.remove(worker)

    async def wait_turn(self) -> None:
        """Wait until this caller is the first in the queue."""
        turn = _Turn(self._loop)
        self.add(turn)
        try:
            await turn.future
        finally:
            if not turn.has_come:
                self._waiting.remove(turn)

    def record_time(self, duration_ns: int) -> None:
        """Record that a connection has worked for `duration_ns` in this iteration."""
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


class _Turn:
    """A coroutine that waits in the run queue."""

    __slots__ = ("future", "has_come")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[None] = loop.create_future()
        self.has_come = False

    def run_slice(self) -> None:
        self.has_come = True
        if not self.future.done():
            self.future.set_result(None)


class Budget(Protocol):
    """A budget that long work awaits between its steps."""

    async def checkpoint(self) -> None:
        """Let other work run first if this work has used its slice."""

    def begin_changes(self) -> None:
        """Record that the work changes data from now on. It then runs to its end, even after its client has
        disconnected: a change must not stay half done."""


class TimeBudget:
    """The budget of one request or job on an event loop: a slice of time, then a turn in the run queue."""

    __slots__ = ("_run_queue", "_started_ns", "changes_data")

    def __init__(self, run_queue: RunQueue) -> None:
        self._run_queue = run_queue
        self._started_ns = clock.monotonic_ns()
        self.changes_data = False
        """Whether the work has begun to change data."""

    async def checkpoint(self) -> None:
        """Let other work run first if this work has used its slice."""
        if clock.monotonic_ns() - self._started_ns > SLICE_NS:
            await self._run_queue.wait_turn()
            self._started_ns = clock.monotonic_ns()

    @property
    def is_slice_over(self) -> bool:
        """Whether this work has used its slice. For a `QueuedWorker`, which has no coroutine."""
        return clock.monotonic_ns() - self._started_ns > SLICE_NS

    def begin_slice(self) -> None:
        """Begin a new slice, after the work has waited for something other than its turn."""
        self._started_ns = clock.monotonic_ns()

    def begin_changes(self) -> None:
        """Record that the work changes data from now on, so that it runs to its end."""
        self.changes_data = True


class UnlimitedBudget:
    """A budget without a limit, for work that runs in one step: in tests, and at the start of a daemon."""

    async def checkpoint(self) -> None:
        """Do nothing."""

    def begin_changes(self) -> None:
        """Do nothing: such work always runs to its end."""


def run_in_one_step(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end without an event loop. Return its result.

    Raises:
        AssertionError: the coroutine waits for something. It would need an event loop.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("a coroutine that must run in one step waits for something")
