"""Answers of the data plane that take long: found in slices, with others in between, or in part elsewhere.

What changes something is brought to its end, also when whoever asked has gone: it may be half done, and a Produce
that wants no answer is often the last thing that a client sends.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from coordinator import clock
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import Steps
from coordinator.topics.steps import Apart, Mark

_LOG: Final = logging.getLogger("KafkaApis")


class InSteps:
    """The steps that are left of one answer. A slot gets it, unless the first slice is enough."""

    __slots__ = (
        "_changes",
        "_do_elsewhere",
        "_elsewhere",
        "_finish",
        "_is_given_up",
        "_place",
        "_result",
        "_run_queue",
        "_slot",
        "_steps",
        "_underway",
    )

    def __init__(
        self,
        steps: Steps,
        run_queue: RunQueue,
        do_elsewhere: Callable[[Apart], "asyncio.Future[Any]"],
        finish: Callable[[Answer, Slot | None], None],
        underway: set["InSteps"],
    ) -> None:
        """In: who else wants to work; who does, or answers, what need not be done on the loop; what becomes of the
        answer and its slot, which is None when nobody waits for the answer any more; where it is found while it
        takes longer than a slice."""
        self._steps = steps
        self._run_queue = run_queue
        self._do_elsewhere = do_elsewhere
        self._finish = finish
        self._underway = underway
        self._place: Slot | None = None
        """The slot, also when nobody waits there any more."""
        self._slot: Slot | None = None
        self._elsewhere: Apart | None = None
        self._result: Any = None
        self._is_given_up = False
        self._changes = False

    def advance(self) -> Answer | None:
        """Works for a slice; the answer, when that was enough."""
        started_ns = clock.monotonic_ns()
        try:
            while self._elsewhere is None and clock.monotonic_ns() - started_ns < SLICE_NS:
                result, self._result = self._result, None
                step = self._steps.send(result)
                if step is Mark.CHANGES:
                    self._changes = True
                    step = None
                self._elsewhere = step
                if step is None:
                    self._result = clock.now()
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        return None

    def wait_in(self, slot: Slot) -> None:
        """Goes on in later iterations of the loop, and fills the slot in the end."""
        self._place = self._slot = slot
        slot.ends = True
        slot.done = _nobody_waits
        slot.dropped = self._give_up
        self._underway.add(self)
        self._wait()

    def go_on(self) -> None:
        """One more slice."""
        try:
            answer = self.advance()
            if answer is None:
                self._wait()
            else:
                self._finish(answer, self._released())
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._has_failed(problem)

    def _released(self) -> Slot | None:
        """The slot, which does not wait here any more: there is nothing left to do."""
        self._let_go()
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.dropped = None
        return slot

    def _let_go(self) -> None:
        """The request is worked on no more."""
        self._underway.discard(self)
        place, self._place = self._place, None
        if place is not None and place.done is not None:
            place.done()

    def _has_failed(self, problem: Exception) -> None:
        slot = self._released()
        if slot is None:
            _LOG.error("A request has failed that nobody waits for any more", exc_info=problem)
        else:
            slot.owner.has_failed(problem)

    def _wait(self) -> None:
        if self._elsewhere is None:
            self._run_queue.add(self)
        else:
            self._do_elsewhere(self._elsewhere).add_done_callback(self._is_done)

    def _is_done(self, done: "asyncio.Future[Any]") -> None:
        self._elsewhere = None
        if done.cancelled() or self._is_given_up:
            return
        try:
            self._result = done.result()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._has_failed(problem)
        else:
            self.go_on()

    def _give_up(self) -> None:
        """Nobody wants the answer any more. What has begun to change something goes on."""
        self._slot = None
        if not self._changes:
            self.stop()

    def stop(self) -> None:
        """Takes no further step."""
        self._let_go()
        self._is_given_up = True
        if self._elsewhere is None:
            self._run_queue.remove(self)
        self._steps.close()


def _nobody_waits() -> None:
    """Until somebody says what the end of the work is for."""
