"""The queue of logs that a thread opens and the event loop then reads in slices, the smallest log first."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from heapq import heapify, heappush
from typing import Final

from coordinator.core import clock
from coordinator.core.time_budget import SLICE_NS
from coordinator.runtime.worker_threads import ExecutorShare
from storage.log import PartitionLog

_LOG: Final = logging.getLogger("LoadQueue")

Opening = Future[PartitionLog]
ReadLog = Callable[[Opening], Iterator[object]]
"""Takes an opened log, or the reason why it could not be opened. Returns the steps that read it."""


class LoadQueue:
    """Opens logs in a thread and reads them on the event loop. All methods belong to the event loop's thread.

    Reading has a slice of `SLICE_NS` in each iteration of the loop, outside the run queue. In the run queue each
    waiting request would have a slice before it, so a broker that restarts under load would load for minutes.
    Meanwhile its groups have no coordinator, and clients repeat their requests. The steps are an iterator because
    the queue changes to another log between two steps: a small log overtakes a large one.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opener: Executor, on_empty: Callable[[], None]
    ) -> None:
        """`opener` is the executor that opens logs. `on_empty` is called each time that all added logs are read."""
        self._loop = loop
        self._on_empty = on_empty
        self._opener = ExecutorShare(opener)
        self._opening = 0
        self._reading: list[tuple[int, int, Iterator[object]]] = []
        self._added = 0
        self._is_stopped = False

    def add_log(self, open_log: Callable[[], PartitionLog], read: ReadLog) -> None:
        """Open a log in the thread, then read it."""
        if self._is_stopped:
            return
        self._opening += 1
        try:
            future: Opening = self._opener.submit(open_log)
        except Exception as problem:  # noqa: BLE001 - the reader handles it, for example when no thread can start
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
        # The step may have added a smaller log, which is first now.
        self._reading = [entry for entry in self._reading if entry[2] is not steps]
        heapify(self._reading)

    async def stop(self) -> None:
        """Wait for the log that is being opened. Do not open or read the others."""
        self._is_stopped = True
        self._reading.clear()
        going_on = [asyncio.wrap_future(future, loop=self._loop) for future in self._opener.cancel()]
        await asyncio.gather(*going_on, return_exceptions=True)

    def abandon(self) -> None:
        """Stop at once, as a crash would."""
        self._is_stopped = True
        self._reading.clear()
        self._opener.cancel()
