"""Answers of the data plane that take long: found in slices, with others in between, or in part elsewhere.

What was begun is brought to its end, also when whoever asked has gone: it may be half done, and a Produce that
wants no answer is often the last thing that a client sends.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from coordinator import clock
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import Elsewhere, Steps


class InSteps:
    """The steps that are left of one answer. A slot gets it, unless the first slice is enough."""

    __slots__ = ("_elsewhere", "_executor", "_finish", "_result", "_run_queue", "_slot", "_steps")

    def __init__(
        self,
        steps: Steps,
        run_queue: RunQueue,
        executor: Callable[[], Executor],
        finish: Callable[[Answer, Slot], None],
    ) -> None:
        """In: who else wants to work; where work is done that need not be done on the loop; what becomes of the
        answer and its slot."""
        self._steps = steps
        self._run_queue = run_queue
        self._executor = executor
        self._finish = finish
        self._slot: Slot | None = None
        self._elsewhere: Elsewhere | None = None
        self._result: Any = None

    def advance(self) -> Answer | None:
        """Works for a slice; the answer, when that was enough."""
        started_ns = clock.monotonic_ns()
        try:
            while self._elsewhere is None and clock.monotonic_ns() - started_ns < SLICE_NS:
                result, self._result = self._result, None
                self._elsewhere = self._steps.send(result)
                if self._elsewhere is None:
                    self._result = clock.now()
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        return None

    def wait_in(self, slot: Slot) -> None:
        """Goes on in later iterations of the loop, and fills the slot in the end."""
        self._slot = slot
        slot.ends = True
        self._wait()

    def go_on(self) -> None:
        """One more slice."""
        slot = self._slot
        assert slot is not None
        try:
            answer = self.advance()
            if answer is None:
                self._wait()
            else:
                self._finish(answer, slot)
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.owner.has_failed(problem)

    def _wait(self) -> None:
        if self._elsewhere is None:
            self._run_queue.add(self)
        else:
            done = asyncio.get_running_loop().run_in_executor(self._executor(), self._elsewhere)
            done.add_done_callback(self._is_done)

    def _is_done(self, done: "asyncio.Future[Any]") -> None:
        self._elsewhere = None
        if done.cancelled():
            return
        assert self._slot is not None
        try:
            self._result = done.result()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._slot.owner.has_failed(problem)
        else:
            self.go_on()
