"""Long work of the data plane as a generator: between two steps the event loop serves other requests."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from coordinator.core.outcome import Now
from protocol.error_codes import ErrorCode
from storage.offset_checkpoint import CheckpointDraft
from storage.storage_errors import StorageError, catch_os_error, catch_storage_error
from storage.topic_partition import TopicPartition

AddOrVerifyResult: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""What the coordinator says to each partition: NONE, or why not."""


class AddOrVerifyRequest(NamedTuple):
    """A question to the coordinator of a transaction. `adds`: to take the partitions into it, else only whether it
    has them; `is_abortable`: whether who asks knows TRANSACTION_ABORTABLE."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    is_abortable: bool


T = TypeVar("T")

ThreadCall = Callable[[], Any]
"""Something that may be done in any thread."""


class StepMark(Enum):
    """What a step may tell of those that follow."""

    CHANGES = "changes"
    """They change what is kept: they are taken to the end, also when nobody waits for the answer any more."""


ExternalStep = ThreadCall | CheckpointDraft | AddOrVerifyRequest
"""What a step may give that others do: something to be done, a checkpoint to be written, a question."""

StepGenerator = Generator[ExternalStep | StepMark | None, Any, T]
"""Steps that lead to a T. One that gives something to be done elsewhere is given the result; one that gives a
checkpoint, the OSError that it could not be written for, or None; one that gives a question, the answer; any other
one the time by then. What a step found, the next one looks up anew: it may be gone."""


def reject_question(question: AddOrVerifyRequest) -> AddOrVerifyResult:
    """Where no question may come. Raises AssertionError."""
    raise AssertionError(f"nobody is there to be asked {question}")


def run_steps(
    steps: StepGenerator[T],
    now: Now | None = None,
    ask: Callable[[AddOrVerifyRequest], AddOrVerifyResult] = reject_question,
) -> T:
    """Takes all steps at once; what they lead to. In: the time, for steps that ask for it: none passes; who answers
    for the coordinators of transactions."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        if isinstance(step, CheckpointDraft):
            step = partial(catch_os_error, step.write)
        if isinstance(step, AddOrVerifyRequest):
            result = ask(step)
            continue
        result = step() if callable(step) else now


def run_internal_steps(steps: StepGenerator[T], now: Now) -> StepGenerator[T]:
    """Merge the steps between two steps that others carry out (a verification, a write) into one. In: the time,
    for steps that ask for it."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = now if step is None else (yield step)


def write_all(steps: Iterable[CheckpointDraft | Callable[[], None] | None]) -> StepGenerator[None]:
    """Has everything written that comes: checkpoints, and what waits for the disk in other ways. Raises OSError."""
    for step in steps:
        if step is None:
            yield None
            continue
        error: OSError | None = (
            yield step if isinstance(step, CheckpointDraft) else partial(catch_os_error, step)
        )
        if error is not None:
            raise error


def call_elsewhere(calls: Generator[ThreadCall, Any, T]) -> StepGenerator[T]:
    """Have each function that a generator gives called in another thread, and send it the result. Raises the
    StorageError or OSError of a function."""
    result: Any = None
    while True:
        try:
            call = calls.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = yield partial(catch_storage_error, call)
        if isinstance(result, StorageError | OSError):
            raise result
