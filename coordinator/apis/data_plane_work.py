"""Long work of the data plane on an event loop, and the services that it waits for: other requests, the thread for
batches, checkpoint files and transaction coordinators."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from coordinator.apis.request_task import RequestTasks
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.core.time_budget import TimeBudget
from coordinator.runtime.worker_threads import ExecutorShare, WorkerThreads
from coordinator.topics.data_plane_answer import TopicChange
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from storage.offset_checkpoint import CheckpointDraft

T = TypeVar("T")

OnTopicsChanged = Callable[[Sequence[TopicChange]], None]


class DataPlaneServices:
    """The services that long work of the data plane waits for. All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: WorkerThreads,
        request_tasks: RequestTasks,
        write_checkpoint: Callable[[CheckpointDraft], Awaitable[None]],
        add_or_verify_partitions: Callable[[AddOrVerifyRequest], asyncio.Future[AddOrVerifyResult]],
        publish_changes: OnTopicsChanged,
    ) -> None:
        """Create the services.

        Args:
            loop: The event loop.
            threads: The thread for large batches.
            request_tasks: The suspended requests of all APIs.
            write_checkpoint: Writes a checkpoint; raises OSError.
            add_or_verify_partitions: Requests the result of the transaction coordinator.
            publish_changes: Passes changes of topics to the listeners.
        """
        self.loop = loop
        self.request_tasks = request_tasks
        self.write_checkpoint = write_checkpoint
        self.add_or_verify_partitions = add_or_verify_partitions
        self.publish_changes = publish_changes
        self._batches = ExecutorShare(threads.batch_executor)

    def create_work(self) -> "DataPlaneWork":
        """Return the work of one request or job. Its slice begins now."""
        return DataPlaneWork(self)

    def call_in_thread(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Call a function in the thread for batches, after all earlier ones."""
        future: asyncio.Future[T] = asyncio.wrap_future(self._batches.submit(function), loop=self.loop)
        future.add_done_callback(_retrieve_error)
        return future

    def close(self) -> None:
        """Drop the functions that have not begun."""
        self._batches.cancel()


class DataPlaneWork(TimeBudget):
    """The `LongWork` of one request or job on an event loop."""

    __slots__ = ("_services",)

    def __init__(self, services: DataPlaneServices) -> None:
        super().__init__(services.request_tasks.run_queue)
        self._services = services

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function in the thread for batches. Return its result; raises its error."""
        return await self._services.call_in_thread(function)

    async def write_offset_checkpoint(self, draft: CheckpointDraft) -> None:
        """Write a checkpoint of offsets to the disk. Raises OSError."""
        await self._services.write_checkpoint(draft)

    async def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> AddOrVerifyResult:
        """Have the coordinator of a transaction add partitions to it, or verify them."""
        return await self._services.add_or_verify_partitions(request)

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Pass changes of topics to the listeners."""
        self._services.publish_changes(changes)

    def now(self) -> Now:
        """Return the present time."""
        return clock.now()


def _retrieve_error(future: "asyncio.Future[T]") -> None:
    """Keep asyncio from reporting the error of a function after its request was stopped."""
    if not future.cancelled():
        future.exception()
