"""Threads next to the event loop, and one server's share of a thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final

from coordinator.runtime.flusher import Flusher
from storage.syncer import Syncer


class WorkerThreads:
    """The threads of one or more servers. Create it in a running event loop; its creator closes it."""

    def __init__(self) -> None:
        self.flusher: Final = Flusher(asyncio.get_running_loop(), Syncer())
        self.opener: Final[Executor] = ThreadPoolExecutor(1, "log-open")
        self.batch_executor: Final[Executor] = ThreadPoolExecutor(1, "groupd-batches")
        """One thread, so that a client with many connections gets no larger share of the machine."""

    def close(self) -> None:
        """Finish the submitted syncs, and cancel all other work that has not started."""
        for executor in (self.opener, self.batch_executor):
            executor.shutdown(wait=False, cancel_futures=True)
        self.flusher.close()


class ExecutorShare:
    """The work of one server in a shared executor. All methods belong to the event loop's thread."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._submitted: set[Future[Any]] = set()

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Run `work` in the executor, after the work that was submitted before."""
        future = self._executor.submit(work)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def cancel(self) -> list[Future[Any]]:
        """Cancel the work that has not started. Return the futures of the work that runs."""
        return [future for future in list(self._submitted) if not future.cancel()]
