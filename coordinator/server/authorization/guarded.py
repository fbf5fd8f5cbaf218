"""A handler behind its guard.

A guard that has much to look at takes steps. What is left after its first slice waits in line; nothing else of the
connection is processed then, and the handler answers in the place that was taken for it.
"""

from collections.abc import Callable

from coordinator import clock
from coordinator.answers import GOODBYE, NO_ANSWER, PARKED, Later, Silence
from coordinator.net.caller import Caller
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import Guard, Pass, Refused, Steps, Verdict
from coordinator.server.handlers.stand import Stand

PermitsOf = Callable[[Caller], Permits]
"""What a caller may do."""


class Guarded:
    """Answers one API."""

    def __init__(
        self,
        guard: Guard,
        handler: Callable[..., object],
        permits_of: PermitsOf,
        run_queue: RunQueue,
        arrival: clock.Arrival,
    ) -> None:
        """In: who else wants to work; the instant that the engine takes for that of the request at hand."""
        self._guard = guard
        self._handler = handler
        self._permits_of = permits_of
        self._run_queue = run_queue
        self._arrival = arrival

    def handle(self, request: object, caller: Caller) -> object:
        """The answer of the handler to what the guard lets pass, with what it does not."""
        verdict = self._guard(request, self._permits_of(caller))
        if not isinstance(verdict, Pass | Refused):
            found = _advance(verdict)
            if found is None:
                _Waiting(self, verdict, request, caller, self._run_queue).begin()
                return PARKED
            verdict = found
        return self.go_on(verdict, request, caller)

    def go_on_late(self, verdict: Verdict, request: object, caller: Caller) -> object:
        """The same for a request that came a while ago."""
        self._arrival.advance(clock.monotonic_ns())
        return self.go_on(verdict, request, caller)

    def go_on(self, verdict: Verdict, request: object, caller: Caller) -> object:
        """What follows from a verdict."""
        if isinstance(verdict, Refused):
            return verdict.response
        if verdict.closes:
            return self._ask_and_close(verdict, request, caller)
        finish = verdict.finish
        if finish is None:
            return self._handler(request, caller, *verdict.arguments)
        response = self._handler(request, _Finishing(caller, finish), *verdict.arguments)
        return response if isinstance(response, Later | Silence) else finish(response)

    def _ask_and_close(self, verdict: Pass, request: object, caller: Caller) -> object:
        """No answer is wanted, and the client is to see that something was refused. Of what takes long, only what
        has begun to change something goes on."""
        closing = _Closing(caller)
        response = self._handler(request, closing, *verdict.arguments)
        if not isinstance(response, Later):
            return GOODBYE
        for slot in closing.slots:
            slot.owner.close()
        return response


def _advance(steps: Steps) -> Verdict | None:
    """Works for a slice; the verdict, when that was enough."""
    try:
        next(steps)  # most have one, which is not worth a look at the clock
        started_ns = clock.monotonic_ns()
        next(steps)
        while clock.monotonic_ns() - started_ns < SLICE_NS:
            next(steps)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
    return None


class _Finishing(Stand):
    """A caller whose answer is finished before it is sent."""

    __slots__ = ("_finish",)

    def __init__(self, caller: Caller, finish: Callable[[object], object]) -> None:
        super().__init__(caller)
        self._finish = finish

    def answer_later(self, *, parks: bool) -> Slot:
        slot = self.caller.answer_later(parks=parks)
        slot.finish = self._finish
        return slot


class _Closing(Stand):
    """A caller whose connection is to be closed."""

    __slots__ = ("slots",)

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self.slots: list[Slot] = []

    def answer_later(self, *, parks: bool) -> Slot:
        slot = self.caller.answer_later(parks=parks)
        self.slots.append(slot)
        return slot


class _Waiting(Stand):
    """The steps that are left of one verdict; then, whom the handler answers."""

    __slots__ = ("_guarded", "_request", "_run_queue", "_slot", "_steps")

    def __init__(
        self, guarded: Guarded, steps: Steps, request: object, caller: Caller, run_queue: RunQueue
    ) -> None:
        super().__init__(caller)
        self._guarded = guarded
        self._steps = steps
        self._request = request
        self._run_queue = run_queue
        self._slot: Slot

    def begin(self) -> None:
        """Takes the place of the answer."""
        self._slot = self.caller.answer_later(parks=True)
        self._wait()

    def _wait(self) -> None:
        self._slot.ends = True
        self._slot.dropped = self._give_up
        self._run_queue.add(self)

    def answer_later(self, *, parks: bool) -> Slot:
        return self._slot

    def go_on(self) -> None:
        """One more slice."""
        slot = self._slot
        slot.ends, slot.dropped = False, None
        try:
            verdict = _advance(self._steps)
            if verdict is None:
                self._wait()
                return
            response = self._guarded.go_on_late(verdict, self._request, self)
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.owner.has_failed(problem)
            return
        if isinstance(response, Later):
            return
        slot.finish = None
        slot.fill(NO_ANSWER if isinstance(response, Silence) else response)
        if response is GOODBYE:
            slot.owner.close()

    def _give_up(self) -> None:
        """The connection is lost."""
        self._run_queue.remove(self)
        self._steps.close()
