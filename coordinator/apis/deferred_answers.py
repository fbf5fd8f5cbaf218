"""Responses that take time, computed in slices between other requests, partly outside the loop.

A request that has begun to change data runs to its end even after its client has disconnected: the change may
be half done, and a Produce with acks=0 is often the last request of a client.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from coordinator.core import clock
from coordinator.core.reply import Reply
from coordinator.core.time_budget import SLICE_NS, RunQueue
from coordinator.topics.data_plane import AnswerSteps
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.stepwise_work import ExternalStep, StepMark

_LOG: Final = logging.getLogger("KafkaApis")


class RemainingSteps:
    """The steps that are left of one answer. A reply gets it, unless the first slice is enough."""

    __slots__ = (
        "_changes",
        "_do_elsewhere",
        "_elsewhere",
        "_finish",
        "_is_abandoned",
        "_is_given_up",
        "_reply",
        "_result",
        "_run_queue",
        "_steps",
        "_underway",
    )

    def __init__(
        self,
        steps: AnswerSteps,
        run_queue: RunQueue,
        do_elsewhere: Callable[[ExternalStep], "asyncio.Future[Any]"],
        finish: Callable[[Answer, Reply | None], None],
        underway: set["RemainingSteps"],
    ) -> None:
        """In: who else wants to work; who does, or answers, what need not be done on the loop; what becomes of the
        answer and its reply, which is None when the client has disconnected; where it is found while it
        takes longer than a slice."""
        self._steps = steps
        self._run_queue = run_queue
        self._do_elsewhere = do_elsewhere
        self._finish = finish
        self._underway = underway
        self._reply: Reply | None = None
        """None before it is deferred, and when the work has ended."""
        self._is_abandoned = False
        """Whether the client has disconnected."""
        self._elsewhere: ExternalStep | None = None
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
                if step is StepMark.CHANGES:
                    self._changes = True
                    step = None
                self._elsewhere = step
                if step is None:
                    self._result = clock.now()
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        return None

    def complete(self, reply: Reply) -> None:
        """Work on in later iterations of the loop, and complete the reply in the end."""
        self._reply = reply
        reply.begin_work(self._abandon)
        reply.on_finished = _ignore_end
        self._underway.add(self)
        self._wait()

    def run_slice(self) -> None:
        """One more slice."""
        try:
            answer = self.advance()
            if answer is None:
                self._wait()
            else:
                self._finish(answer, self._end_work())
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._fail(problem)

    def _end_work(self) -> Reply | None:
        """End the work on the request. Return its reply; None when the client has disconnected."""
        self._underway.discard(self)
        reply, self._reply = self._reply, None
        if reply is None:
            return None
        if reply.on_finished is not None:
            reply.on_finished()
        reply.on_abandoned = None
        return None if self._is_abandoned else reply

    def _fail(self, problem: Exception) -> None:
        reply = self._end_work()
        if reply is None:
            _LOG.error("A request has failed that nobody waits for any more", exc_info=problem)
        else:
            reply.fail(problem)

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
            self._fail(problem)
        else:
            self.run_slice()

    def _abandon(self) -> None:
        """The client has disconnected. Work that has begun to change something goes on."""
        self._is_abandoned = True
        if not self._changes:
            self.stop()

    def stop(self) -> None:
        """Takes no further step."""
        self._end_work()
        self._is_given_up = True
        if self._elsewhere is None:
            self._run_queue.remove(self)
        self._steps.close()


def _ignore_end() -> None:
    """Stands in for what the connection does at the end of the work, if anything."""
