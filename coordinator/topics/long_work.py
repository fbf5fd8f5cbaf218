"""The interface of long requests in the data plane.

A long handler is a coroutine with a `LongWork`. All its waits go through this object: for a turn on the event loop,
another thread, the disk, or the transaction coordinator. The data plane itself has no event loop. Tests and the
start of a daemon run the same coroutines in one step, with a `OneStepWork`.

Other requests run during each await. Afterwards the handler looks up its topic, partition, leader or log again, or
uses only immutable values.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from coordinator.core.outcome import Now
from coordinator.core.time_budget import Budget
from coordinator.topics.data_plane_answer import TopicChange
from protocol.error_codes import ErrorCode
from storage.data_directory import DirectorySteps
from storage.offset_checkpoint import CheckpointDraft
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

T = TypeVar("T")

Work: TypeAlias = Coroutine[Any, Any, T]
"""A coroutine that returns a `T`. Only a driver sees the values that pass through it."""

AddOrVerifyResult: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""The answer of a transaction coordinator for each partition: NONE, or the reason of its refusal."""


class AddOrVerifyRequest(NamedTuple):
    """A request to the coordinator of a transaction, see Kafka's `AddPartitionsToTxnManager`.

    `adds`: the coordinator adds the partitions to the transaction; else it verifies that the transaction has them.
    `is_abortable`: the producer knows the error TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    is_abortable: bool


AddOrVerify: TypeAlias = Callable[[AddOrVerifyRequest], AddOrVerifyResult]
"""A transaction coordinator that answers at once."""


class LongWork(Budget, Protocol):
    """The work of one request. Other requests run during each await."""

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function in another thread. Return its result or raise its error."""

    async def write_offset_checkpoint(self, draft: CheckpointDraft) -> None:
        """Write a checkpoint of offsets to the disk.

        Raises:
            OSError: the disk failed.
        """

    async def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> AddOrVerifyResult:
        """Let the transaction coordinator add partitions to a transaction, or verify them."""

    def begin_changes(self) -> None:
        """Mark that the work changes data from now on: it completes even if the client disconnects."""

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Pass changes of topics to the listeners, before another request can see and change the topics."""

    def now(self) -> Now:
        """Return the present time."""


def reject_transaction(request: AddOrVerifyRequest) -> AddOrVerifyResult:
    """Reject a request to a transaction coordinator, for work outside of transactions.

    Raises:
        AssertionError: always.
    """
    raise AssertionError(f"no transaction coordinator for {request}")


class OneStepWork:
    """The `LongWork` of a coroutine that runs in one step: only disk I/O blocks."""

    __slots__ = ("_add_or_verify", "_now")

    def __init__(self, now: Now | None = None, add_or_verify: AddOrVerify = reject_transaction) -> None:
        """`now` is the constant time; None for work that does not use the time."""
        self._now = now
        self._add_or_verify = add_or_verify

    async def checkpoint(self) -> None:
        """Continue at once: other requests do not run in between."""

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function in this thread."""
        return function()

    async def write_offset_checkpoint(self, draft: CheckpointDraft) -> None:
        """Write a checkpoint of offsets to the disk.

        Raises:
            OSError: the disk failed.
        """
        draft.write()

    async def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> AddOrVerifyResult:
        """Let the coordinator answer at once."""
        return self._add_or_verify(request)

    def begin_changes(self) -> None:
        """Do nothing: work in one step always runs to its end."""

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Raise AssertionError: only a `OneStepChangeWork` changes topics."""
        raise AssertionError(f"no listeners for {changes}")

    def now(self) -> Now:
        """Return the time at which the work began."""
        assert self._now is not None, "this work was begun without a time"
        return self._now


class OneStepChangeWork(OneStepWork):
    """A `OneStepWork` that keeps the published changes for its caller. Other requests do not run before that."""

    __slots__ = ("changes",)

    def __init__(self, now: Now, add_or_verify: AddOrVerify) -> None:
        super().__init__(now, add_or_verify)
        self.changes: list[TopicChange] = []

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Keep the changes, in the order in which they were published."""
        self.changes += changes


IN_ONE_STEP: Final = OneStepWork()
"""For work that uses neither the time nor a transaction coordinator."""


class _ThreadCall(Generic[T]):
    """The wait of a coroutine for a function in another thread."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function

    def __await__(self) -> Generator["_ThreadCall[T]", T, T]:
        result: T = yield self
        return result


class OneStepUnlessThreadWork(OneStepWork):
    """The `LongWork` of a coroutine that runs in one step unless it needs another thread."""

    __slots__ = ()

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Suspend the coroutine until its driver has called a function in another thread."""
        result: T = await _ThreadCall(function)
        return result


ONE_STEP_UNLESS_THREAD: Final = OneStepUnlessThreadWork()
"""For coroutines of `run_up_to_thread`."""


def run_up_to_thread(coroutine: Work[T]) -> T | Callable[[LongWork], Work[T]]:
    """Run a coroutine with `ONE_STEP_UNLESS_THREAD` up to its first call in a thread. Return its result, or the
    function that continues it with another `LongWork`.
    """
    try:
        call = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return partial(_continue_in_thread, coroutine, call)


async def _continue_in_thread(coroutine: Work[T], call: _ThreadCall[Any], work: LongWork) -> T:
    with closing(coroutine):
        while True:
            try:
                value = await work.call_in_thread(call.function)
            except (StorageError, OSError) as error:
                send = partial(coroutine.throw, error)
            else:
                send = partial(coroutine.send, value)
            try:
                call = send()
            except StopIteration as end:
                result: T = end.value
                return result


async def run_directory_steps(work: LongWork, steps: DirectorySteps[T]) -> T:
    """Run the steps of a change of the data directory. Return their result.

    A step is a checkpoint to write, a function for another thread, or None; the OSError of the write or the
    function is sent back. Raises the errors of the steps.
    """
    error: OSError | None = None
    with closing(steps):
        while True:
            try:
                step = steps.send(error)
            except StopIteration as end:
                result: T = end.value
                return result
            error = None
            if step is None:
                await work.checkpoint()
            elif isinstance(step, CheckpointDraft):
                try:
                    await work.write_offset_checkpoint(step)
                except OSError as problem:
                    error = problem
            else:
                error = await work.call_in_thread(step)


async def run_thread_steps(work: LongWork, steps: Generator[Callable[[], Any], Any, T]) -> T:
    """Call each function that a generator yields in another thread, and send it the result. Return the result of
    the generator. Raises the error of a function, which ends the steps, or of the generator."""
    result: Any = None
    with closing(steps):
        while True:
            try:
                function = steps.send(result)
            except StopIteration as end:
                found: T = end.value
                return found
            result = await work.call_in_thread(function)
