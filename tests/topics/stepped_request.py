"""Requests of the data plane that stop at each await, where a test lets other requests run."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import coroutine
from typing import Any, Generic, TypeVar

from coordinator.core.outcome import Now
from coordinator.topics.data_plane_answer import TopicChange
from coordinator.topics.long_work import AddOrVerify, AddOrVerifyRequest, AddOrVerifyResult, Work
from storage.offset_checkpoint import CheckpointDraft

T = TypeVar("T")
Step = Callable[[], Any] | None
"""The function that a request awaits; None for a checkpoint of its budget."""


@coroutine
def _stop(step: Step) -> Generator[Step, Any, Any]:
    return (yield step)


class SteppedWork:
    """The `LongWork` of a `SteppedRequest`."""

    def __init__(self, now: Callable[[], Now], add_or_verify: AddOrVerify) -> None:
        self._add_or_verify = add_or_verify
        self.now = now
        self.changes_data = False
        self.changes: list[TopicChange] = []
        """The published changes of topics."""

    async def checkpoint(self) -> None:
        await _stop(None)

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        result: T = await _stop(function)
        return result

    async def write_offset_checkpoint(self, draft: CheckpointDraft) -> None:
        await _stop(draft.write)

    async def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> AddOrVerifyResult:
        result: AddOrVerifyResult = await _stop(partial(self._add_or_verify, request))
        return result

    def begin_changes(self) -> None:
        self.changes_data = True

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        self.changes += changes


class SteppedRequest(Generic[T]):
    """A coroutine that has run to its first await."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self.step: Step = None
        """What the coroutine awaits."""
        self.is_ended = False
        self._result: T
        self._resume(partial(work.send, None))

    def perform(self) -> Callable[[], object]:
        """Perform the awaited call of the coroutine. Return a function that resumes it with the result or the
        error."""
        assert not self.is_ended
        if self.step is None:
            return partial(self._resume, partial(self._work.send, None))
        try:
            result = self.step()
        except Exception as error:  # noqa: BLE001 - the coroutine gets it
            return partial(self._resume, partial(self._work.throw, error))
        return partial(self._resume, partial(self._work.send, result))

    def advance(self) -> None:
        """Perform the awaited call of the coroutine, and run it to its next await."""
        self.perform()()

    def finish(self) -> T:
        """Run the coroutine to its end. Return its result."""
        while not self.is_ended:
            self.advance()
        return self._result

    def close(self) -> None:
        """Stop the coroutine where it is."""
        self._work.close()

    def _resume(self, resume: Callable[[], Step]) -> None:
        try:
            self.step = resume()
        except StopIteration as end:
            self.is_ended, self._result = True, end.value
