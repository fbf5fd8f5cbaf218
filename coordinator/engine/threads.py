"""The threads beside the event loop: one syncs logs, one opens them, one works on what is large. Several servers of
a process may share them. Each thread begins with the first work for it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final

from coordinator.engine.flusher import Flusher
from storage.syncer import Syncer


class Threads:
    """Made in a running event loop; `close` by who made them."""

    def __init__(self) -> None:
        self.flusher: Final = Flusher(asyncio.get_running_loop(), Syncer())
        self.opener: Final[Executor] = ThreadPoolExecutor(1, "log-open")
        self.batches: Final[Executor] = ThreadPoolExecutor(1, "groupd-batches")
        """One thread: who asks for much gets no more of the machine by asking on many connections."""

    def close(self) -> None:
        """Finishes what is being synced; what nobody has begun is not done any more."""
        for executor in (self.opener, self.batches):
            executor.shutdown(wait=False, cancel_futures=True)
        self.flusher.close()


class Share:
    """What one of several asks of a thread. All methods belong to the event loop's thread."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asked: set[Future[Any]] = set()

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Has something done, after all that others have asked for before."""
        future = self._executor.submit(work)
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        return future

    def cancel(self) -> list[Future[Any]]:
        """Nothing more is begun. Out: what goes on already."""
        return [future for future in list(self._asked) if not future.cancel()]
