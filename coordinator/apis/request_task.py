"""Requests with coroutine handlers, and the objects that the coroutines wait for.

Most requests take microseconds. So `RequestTasks.run` steps a coroutine at once, up to its first suspension. A
coroutine that ends there costs neither a reply, nor a future, nor a task of asyncio: its result is the result of
the handler. If it suspends, the reply is deferred and a `_RequestTask` continues it:

- at a checkpoint of its budget, when other work has had its turn;
- at a future (the result of a thread, a lock, another broker), when that is done;
- at responses of parts (`PartResponses`), within the call that delivers the last of them.

During a wait for parts, or for an `UnblockingFuture`, the connection is free to process further requests: the rest
of the work does not need it, and mostly waits for the disk. During other waits the connection is blocked, as in
Kafka.

`asyncio.Task` would do the same with one more iteration of the event loop for each request, and Python 3.11 cannot
run its first step at once. The price of this driver: `asyncio.current_task()` is None in such a coroutine, so it
must not use `asyncio.timeout` or `asyncio.TaskGroup`. Locks, futures, executors and other coroutines work.

When the client disconnects, CancelledError is thrown into the coroutine at once, unless it changes data
(`Budget.begin_changes`): then it runs to its end without a reply. An exception closes the connection.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from coordinator.core import clock
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import AWAITING_DISK, BLOCKED, DeferredResponse
from coordinator.core.time_budget import Budget, RunQueue, TimeBudget
from coordinator.network.request_context import RequestContext

_LOG: Final = logging.getLogger("KafkaApis")

P = TypeVar("P")
T = TypeVar("T")

RequestWork = Coroutine[Any, Any, Any]
CoroutineHandler = Callable[..., RequestWork]
"""Takes a request, its context, its budget, and the arguments that a guard adds. Returns what a `Handler`
returns."""
FinishRequest = Callable[[Any, Reply | None], object]
"""Takes the result of a coroutine, and the reply, which is None when it was not deferred. Returns what a `Handler`
returns."""


class AwaitedByRequest(Protocol):
    """An object for which the coroutine of a request waits: an `asyncio.Future`, which blocks the connection, or
    another one, which does not.
    """

    def add_done_callback(self, on_done: Callable[[Any], object], /) -> object:
        """Call a function when the wait is over."""

    def remove_done_callback(self, on_done: Callable[[Any], object], /) -> object:
        """Remove a callback."""


class UnblockingFuture(Generic[T]):
    """A future for which a request waits, while its connection processes further requests."""

    __slots__ = ("_future", "_on_done")

    def __init__(self, future: "asyncio.Future[T]") -> None:
        self._future = future
        self._on_done: Callable[[Any], object] | None = None

    def __await__(self) -> Generator["UnblockingFuture[T]", None, T]:
        if not self._future.done():
            yield self
        return self._future.result()

    def add_done_callback(self, on_done: Callable[["UnblockingFuture[T]"], object]) -> None:
        """Call a function when the future is done."""
        self._on_done = on_done
        self._future.add_done_callback(self._complete)

    def remove_done_callback(self, _: Callable[["UnblockingFuture[T]"], object]) -> None:
        """Remove the callback of the wait."""
        self._on_done = None

    def _complete(self, _: "asyncio.Future[T]") -> None:
        if self._on_done is not None:
            self._on_done(self)


SendPart = Callable[[DeferReply], object | DeferredResponse]
"""Sends one part to its partition. Takes a function that opens the reply of the part, and returns the response, or
a `DeferredResponse` when the reply gets it later.
"""


class PartResponses:
    """The responses of the parts of one request, in the order in which the parts were sent.

    Await it to get them as a list. It raises the error of a failed part. At the end of its `with` block it abandons
    the parts without a response.
    """

    __slots__ = ("_context", "_failure", "_on_complete", "_open_parts", "_responses")

    def __init__(self, context: RequestContext) -> None:
        """Create it without parts. `context` is the context of the request that is split."""
        self._context = context
        self._responses: list[Any] = []
        self._open_parts: dict[int, PartReply] = {}
        """The replies of parts without a response, by their position in `_responses`."""
        self._failure: Exception | None = None
        self._on_complete: Callable[[PartResponses], object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        open_parts, self._open_parts = self._open_parts, {}
        for reply in open_parts.values():
            reply.abandon()

    def __await__(self) -> Generator["PartResponses", None, list[Any]]:
        if self._open_parts and self._failure is None:
            yield self
        if self._failure is not None:
            raise self._failure
        return self._responses

    def send(self, send_part: SendPart) -> None:
        """Send the next part."""
        number = len(self._responses)
        self._responses.append(None)
        response = send_part(partial(self._open_part_reply, number))
        if type(response) is not DeferredResponse:
            self._responses[number] = response

    def _open_part_reply(self, number: int, _: bool) -> "PartReply":
        """Open the reply of a part. A part never blocks the connection; the whole request may."""
        reply = self._open_parts[number] = PartReply(self, number)
        return reply

    def add_response(self, number: int, response: object) -> None:
        """Add the response of a part that came later. Ignored if the request has ended."""
        if self._open_parts.pop(number, None) is not None:
            self._responses[number] = response
            if not self._open_parts:
                self._complete()

    def fail(self, number: int, problem: Exception) -> None:
        """Fail the whole request, since a part has failed."""
        if self._open_parts.pop(number, None) is not None and self._failure is None:
            self._failure = problem
            self._complete()

    def abort_connection(self) -> None:
        """Close the connection of the client at once; a request of groupd has none."""
        if self._context.connection is not None:
            self._context.connection.abort()

    # For the driver of the coroutine: see `AwaitedByRequest`

    def add_done_callback(self, on_done: Callable[["PartResponses"], object]) -> None:
        """Set the function to call when all responses have arrived or a part has failed."""
        self._on_complete = on_done

    def remove_done_callback(self, on_done: Callable[["PartResponses"], object]) -> None:
        """Remove the callback of the wait."""
        if self._on_complete == on_done:
            self._on_complete = None

    def _complete(self) -> None:
        on_complete, self._on_complete = self._on_complete, None
        if on_complete is not None:
            on_complete(self)


class PartReply(Reply):
    """The reply to one part of a request."""

    responses: PartResponses
    number: int

    def send(self, response: object) -> None:
        if self.transform is not None:
            response = self.apply_transform(response)
        if response is not BLOCKED:
            self.responses.add_response(self.number, response)

    def fail(self, problem: Exception) -> None:
        self.responses.fail(self.number, problem)

    def abort_connection(self) -> None:
        self.responses.abort_connection()


async def gather_parts(parts: Iterable[SendPart], context: RequestContext, budget: Budget) -> list[Any]:
    """Send all parts of a request, and return their responses in the same order.

    Args:
        parts: functions that send the parts. Other requests may be processed between two parts. So a generator must
            look up the values for a part just before it yields the part.
        context: the context of the request that is split.

    Raises:
        Exception: the error of a failed part.
    """
    with PartResponses(context) as responses:
        for send_part in parts:
            responses.send(send_part)
            await budget.checkpoint()
        return await responses


class RequestTasks:
    """The suspended requests of one event loop."""

    __slots__ = ("_tasks", "arrival", "run_queue")

    def __init__(self, run_queue: RunQueue, arrival: clock.Arrival) -> None:
        """Create the tasks.

        Args:
            arrival: the arrival time that the engine uses for the current request. It advances when a coroutine is
                resumed.
        """
        self.run_queue = run_queue
        self.arrival = arrival
        self._tasks: set[_RequestTask] = set()

    def __len__(self) -> int:
        """Return the number of unfinished requests, including requests of disconnected clients."""
        return len(self._tasks)

    def create_budget(self) -> TimeBudget:
        """Return a budget for one request, with a slice that begins now."""
        return TimeBudget(self.run_queue)

    def create_handler(self, handle: CoroutineHandler) -> Callable[..., object]:
        """Return the `Handler` that runs a coroutine handler."""

        def handle_request(request: object, context: RequestContext, *arguments: object) -> object:
            budget = TimeBudget(self.run_queue)
            return self.run(handle(request, context, budget, *arguments), context.defer, budget)

        return handle_request

    def run(
        self, work: RequestWork, defer: DeferReply, budget: TimeBudget, finish: FinishRequest | None = None
    ) -> object:
        """Run the coroutine of a request up to its first suspension.

        Args:
            work: a coroutine that has not started. It waits only for objects of `AwaitedByRequest`.
            defer: opens the reply if the coroutine suspends.
            budget: the budget that the coroutine has.
            finish: turns the coroutine's result into the response; None: the result is the response. It is not
                called after the client has disconnected.

        Returns:
            The result of a handler.
        """
        try:
            awaited = work.send(None)
        except StopIteration as end:
            return end.value if finish is None else finish(end.value, None)
        task = _RequestTask(self, work, budget, finish)
        self._tasks.add(task)
        return task.defer(defer, awaited)

    def discard(self, task: "_RequestTask") -> None:
        """Forget a request that has ended."""
        self._tasks.discard(task)

    def stop(self) -> None:
        """Stop all requests where they are, even in the middle of a change. The next start completes such a change,
        as after a crash."""
        for task in list(self._tasks):
            task.stop()


class _RequestTask:
    """A coroutine that has suspended, and the reply of its request."""

    __slots__ = ("_awaited", "_budget", "_finish", "_is_abandoned", "_reply", "_tasks", "_work")

    def __init__(
        self, tasks: RequestTasks, work: RequestWork, budget: TimeBudget, finish: FinishRequest | None
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._budget = budget
        self._finish = finish
        self._awaited: AwaitedByRequest | None = None
        """None while the coroutine runs, and when it has ended."""
        self._reply: Reply
        self._is_abandoned = False
        """Whether the client has disconnected."""

    def defer(self, defer: DeferReply, awaited: AwaitedByRequest) -> DeferredResponse:
        """Open the reply, and resume the coroutine when `awaited` is done."""
        blocks = asyncio.isfuture(awaited)
        self._reply = defer(blocks)
        self._reply.on_finished = _ignore_end
        self._wait(awaited)
        return BLOCKED if blocks else AWAITING_DISK

    def _wait(self, awaited: AwaitedByRequest) -> None:
        self._awaited = awaited
        if not self._is_abandoned:
            reply = self._reply
            reply.is_in_progress = asyncio.isfuture(awaited)
            reply.on_abandoned = self._on_abandoned
        awaited.add_done_callback(self._resume)

    def _resume(self, awaited: object) -> None:
        """Continue the coroutine up to its next suspension, unless it was stopped after the wait was over."""
        if self._awaited is not awaited:
            return
        self._awaited = None
        reply = self._reply
        reply.is_in_progress = False
        reply.on_abandoned = None
        self._tasks.arrival.advance(clock.monotonic_ns())
        self._budget.begin_slice()
        try:
            next_awaited = self._work.send(None)
        except StopIteration as end:
            self._end_work()
            if not self._is_abandoned:
                reply.complete_with(self._create_response, end.value)
        except asyncio.CancelledError:  # the awaited future was cancelled, because the daemon stops
            self._end_work()
        except Exception as problem:  # noqa: BLE001 - the error of a request closes only its connection
            self._end_work()
            if self._is_abandoned:
                _LOG.error("A request failed after its client had disconnected", exc_info=problem)
            else:
                reply.fail(problem)
        else:
            self._wait(next_awaited)

    def _create_response(self, result: object) -> object:
        return result if self._finish is None else self._finish(result, self._reply)

    def _end_work(self) -> None:
        self._tasks.discard(self)
        on_finished, self._reply.on_finished = self._reply.on_finished, None
        if on_finished is not None:
            on_finished()

    def _on_abandoned(self) -> None:
        self._is_abandoned = True
        if not self._budget.changes_data:
            self.stop()

    def stop(self) -> None:
        """Take no further step. The coroutine gets a CancelledError where it waits."""
        awaited, self._awaited = self._awaited, None
        assert awaited is not None, "a coroutine that runs is not stopped"
        awaited.remove_done_callback(self._resume)
        self._reply.on_abandoned = None
        self._end_work()
        try:
            self._work.throw(asyncio.CancelledError())
        except (StopIteration, asyncio.CancelledError):
            return
        except Exception as problem:  # noqa: BLE001 - the other requests must be stopped as well
            _LOG.error("A request failed while it was stopped", exc_info=problem)
            return
        self._work.close()


def _ignore_end() -> None:
    """Do nothing at the end of the work: the default until the connection sets its own callback."""


MAX_PARTITIONS_PER_STEP: Final = 500
"""Partitions of a large request that are handled in one step. Other requests are answered after each step."""


def in_pieces(partitions: Sequence[P]) -> Iterator[list[P]]:
    """Split partitions into lists of at most `MAX_PARTITIONS_PER_STEP`; yield one empty list for no partitions."""
    for start in range(0, max(1, len(partitions)), MAX_PARTITIONS_PER_STEP):
        yield list(partitions[start : start + MAX_PARTITIONS_PER_STEP])


_MAX_ON_LOOP: Final = 500


async def run_in_thread_if_large(work: Callable[[], T], size: int) -> T:
    """Run a pure function of immutable values, in a thread if it reads more than `_MAX_ON_LOOP` of them.

    Args:
        size: the number of values that the function reads.
    """
    if size <= _MAX_ON_LOOP:
        return work()
    return await asyncio.get_running_loop().run_in_executor(None, work)
