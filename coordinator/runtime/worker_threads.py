"""Threads beside the event loop, and the queue of logs that are opened in one of them and then read in
slices.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial
from heapq import heapify, heappush
from typing import Any, Final

from coordinator.core import clock
from coordinator.runtime.flusher import Flusher
from storage.log import PartitionLog
from storage.syncer import Syncer

_LOG: Final = logging.getLogger("LoadQueue")
SLICE_NS: Final = 5_000_000

Opening = Future[PartitionLog]
ReadLog = Callable[[Opening], Iterator[object]]
"""Takes a log that was opened, or the reason why not; what it gives is run to its end, step by step."""


class LoadQueue:
    """All methods belong to the event loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opener: Executor, on_empty: Callable[[], None]
    ) -> None:
        """In: the thread that opens logs; what to call each time that everything added was read."""
        self._loop = loop
        self._on_empty = on_empty
        self._opener = ExecutorShare(opener)
        self._opening = 0
        self._reading: list[tuple[int, int, Iterator[object]]] = []
        self._added = 0
        self._is_stopped = False

    def add_log(self, open_log: Callable[[], PartitionLog], read: ReadLog) -> None:
        """Opens a log in the thread, then reads it."""
        if self._is_stopped:
            return
        self._opening += 1
        try:
            future: Opening = self._opener.submit(open_log)
        except Exception as problem:  # noqa: BLE001 - no thread can be started: the reader handles it
            future = Future()
            future.set_exception(problem)
        future.add_done_callback(partial(self._on_opened_in_thread, read))

    def _on_opened_in_thread(self, read: ReadLog, future: Opening) -> None:
        self._loop.call_soon_threadsafe(self._on_opened, read, future)

    def _on_opened(self, read: ReadLog, future: Opening) -> None:
        self._opening -= 1
        try:
            log = None if future.exception() is not None else future.result()
        except CancelledError:
            return
        if self._is_stopped:
            if log is not None:
                log.close(clean=False)
            return
        if not self._reading:
            self._loop.call_soon(self._run_slice)
        self._added += 1
        heappush(self._reading, (0 if log is None else log.size_bytes, self._added, read(future)))

    def _run_slice(self) -> None:
        started_ns = clock.monotonic_ns()
        while self._reading and clock.monotonic_ns() - started_ns < SLICE_NS:
            steps = self._reading[0][2]
            try:
                next(steps)
            except StopIteration:
                self._remove(steps)
            except Exception as problem:  # noqa: BLE001 - the other logs are read all the same
                _LOG.error("Failed to read a log", exc_info=problem)
                self._remove(steps)
        if self._reading:
            self._loop.call_soon(self._run_slice)
        elif not self._opening and not self._is_stopped:
            self._on_empty()

    def _remove(self, steps: Iterator[object]) -> None:
        # A step may have added a smaller one.
        self._reading = [entry for entry in self._reading if entry[2] is not steps]
        heapify(self._reading)

    async def stop(self) -> None:
        """Waits for the log that is being opened; the others are left alone."""
        self._is_stopped = True
        self._reading.clear()
        going_on = [asyncio.wrap_future(future, loop=self._loop) for future in self._opener.cancel()]
        await asyncio.gather(*going_on, return_exceptions=True)

    def abandon(self) -> None:
        """Lets go of everything at once, as a crash would."""
        self._is_stopped = True
        self._reading.clear()
        self._opener.cancel()


class WorkerThreads:
    """Made in a running event loop; `close` by who made them."""

    def __init__(self) -> None:
        self.flusher: Final = Flusher(asyncio.get_running_loop(), Syncer())
        self.opener: Final[Executor] = ThreadPoolExecutor(1, "log-open")
        self.batch_executor: Final[Executor] = ThreadPoolExecutor(1, "groupd-batches")
        """One thread: who asks for much gets no more of the machine by asking on many connections."""

    def close(self) -> None:
        """Finishes what is being synced; what nobody has begun is not done any more."""
        for executor in (self.opener, self.batch_executor):
            executor.shutdown(wait=False, cancel_futures=True)
        self.flusher.close()


class ExecutorShare:
    """What one of several asks of a thread. All methods belong to the event loop's thread."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._submitted: set[Future[Any]] = set()

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Has something done, after all that others have asked for before."""
        future = self._executor.submit(work)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def cancel(self) -> list[Future[Any]]:
        """Nothing more is begun. Out: what goes on already."""
        return [future for future in list(self._submitted) if not future.cancel()]
