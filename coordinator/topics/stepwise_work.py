"""Work that takes long, in steps: between two of them others may be answered."""

from collections.abc import Callable, Generator, Iterable
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from coordinator.machine.outcome import Now
from coordinator.topics.consent import AskConsent, Consent
from storage.checkpoint import Draft
from storage.os_error import outcome

T = TypeVar("T")

Elsewhere = Callable[[], Any]
"""Something that may be done in any thread."""


class Mark(Enum):
    """What a step may tell of those that follow."""

    CHANGES = "changes"
    """They change what is kept: they are taken to the end, also when nobody waits for the answer any more."""


Apart = Elsewhere | Draft | AskConsent
"""What a step may give that others do: something to be done, a checkpoint to be written, a question."""

Work = Generator[Apart | Mark | None, Any, T]
"""Steps that lead to a T. One that gives something to be done elsewhere is given the result; one that gives a
checkpoint, the OSError that it could not be written for, or None; one that gives a question, the answer; any other
one the time by then. What a step found, the next one looks up anew: it may be gone."""


def nobody_to_ask(question: AskConsent) -> Consent:
    """Where no question may come. Raises AssertionError."""
    raise AssertionError(f"nobody is there to be asked {question}")


def taken(steps: Work[T], now: Now | None = None, ask: Callable[[AskConsent], Consent] = nobody_to_ask) -> T:
    """Takes all steps at once; what they lead to. In: the time, for steps that ask for it: none passes; who answers
    for the coordinators of transactions."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        if isinstance(step, Draft):
            step = partial(outcome, step.write)
        if isinstance(step, AskConsent):
            result = ask(step)
            continue
        result = step() if callable(step) else now


def but_for_others(steps: Work[T], now: Now) -> Work[T]:
    """The same steps as fewer: those that others do, and all between two of them in one go. In: the time, for steps
    that ask for it."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = now if step is None else (yield step)


def written(steps: Iterable[Draft | Callable[[], None] | None]) -> Work[None]:
    """Has everything written that comes: checkpoints, and what waits for the disk in other ways. Raises OSError."""
    for step in steps:
        if step is None:
            yield None
            continue
        error: OSError | None = yield step if isinstance(step, Draft) else partial(outcome, step)
        if error is not None:
            raise error
