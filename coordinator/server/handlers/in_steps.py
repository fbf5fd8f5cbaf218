"""An answer of the data plane that takes long, found in slices between which others are answered."""

from collections.abc import Callable

from coordinator import clock
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import Steps


class InSteps:
    """The steps that are left of one answer. `slot` gets it; it is there unless the first slice was enough."""

    def __init__(self, run_queue: RunQueue, steps: Steps, when_there: Callable[[Answer], None]) -> None:
        """In: who else wants to work; what is done with the answer besides sending it."""
        self._run_queue = run_queue
        self._steps = steps
        self._when_there = when_there
        self.slot: Slot | None = None

    def advance(self) -> Answer | None:
        """Works for a slice; the answer, when that was enough."""
        started_ns = clock.monotonic_ns()
        try:
            while clock.monotonic_ns() - started_ns < SLICE_NS:
                next(self._steps)
        except StopIteration as end:
            answer: Answer = end.value
            self._when_there(answer)
            return answer
        return None

    def wait_in(self, slot: Slot) -> None:
        """Goes on in later turns of the loop, and fills the slot in the end."""
        self.slot = slot
        slot.dropped = self.give_up
        self._run_queue.add(self)

    def go_on(self) -> None:
        """One more slice."""
        slot = self.slot
        assert slot is not None
        try:
            answer = self.advance()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.dropped = None
            slot.owner.has_failed(problem)
            return
        if answer is None:
            self._run_queue.add(self)
        else:
            slot.fill(answer.response)

    def give_up(self) -> None:
        """Nobody wants the answer any more."""
        self._run_queue.remove(self)
        self._steps.close()
