"""Opens logs and reads them, beside everything else that the loop does.

Opening may have to check and copy gigabytes after a crash, and waits for the disk: it happens in a thread, one log
at a time. Reading is work for the processor and for the loop's own objects: it happens in the loop, in slices. The
smallest log is read first, so that one with a long history keeps nobody waiting but its own groups.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from heapq import heapify, heappush
from typing import Final

from coordinator import clock
from coordinator.engine.threads import Share
from storage.log import PartitionLog

_LOG: Final = logging.getLogger("LoadQueue")
SLICE_NS: Final = 5_000_000

Opening = Future[PartitionLog]
Read = Callable[[Opening], Iterator[object]]
"""Takes a log that was opened, or the reason why not; what it gives is run to its end, step by step."""


class LoadQueue:
    """All methods belong to the event loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opener: Executor, emptied: Callable[[], None]
    ) -> None:
        """In: the thread that opens logs; what to call each time that everything added was read."""
        self._loop = loop
        self._emptied = emptied
        self._opener = Share(opener)
        self._opening = 0
        self._reading: list[tuple[int, int, Iterator[object]]] = []
        self._added = 0
        self._is_stopped = False

    def add(self, open_log: Callable[[], PartitionLog], read: Read) -> None:
        """Opens a log in the thread, then reads it."""
        if self._is_stopped:
            return
        self._opening += 1
        try:
            future: Opening = self._opener.submit(open_log)
        except Exception as problem:  # noqa: BLE001 - no thread can be started: the reader handles it
            future = Future()
            future.set_exception(problem)
        future.add_done_callback(partial(self._opened_in_thread, read))

    def _opened_in_thread(self, read: Read, future: Opening) -> None:
        self._loop.call_soon_threadsafe(self._opened, read, future)

    def _opened(self, read: Read, future: Opening) -> None:
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
            self._loop.call_soon(self._slice)
        self._added += 1
        heappush(self._reading, (0 if log is None else log.size_bytes, self._added, read(future)))

    def _slice(self) -> None:
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
            self._loop.call_soon(self._slice)
        elif not self._opening and not self._is_stopped:
            self._emptied()

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
