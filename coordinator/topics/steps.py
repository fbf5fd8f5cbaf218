"""Work that takes long, in steps: between two of them others may be answered."""

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar

from coordinator.machine.outcome import Now

T = TypeVar("T")

Elsewhere = Callable[[], Any]
"""Something that may be done in any thread."""


class Mark(Enum):
    """What a step may tell of those that follow."""

    CHANGES = "changes"
    """They change what is kept: they are taken to the end, also when nobody waits for the answer any more."""


Work = Generator[Elsewhere | Mark | None, Any, T]
"""Steps that lead to a T. One that gives something to be done elsewhere is given the result, any other one the time
by then. What a step found, the next one looks up anew: it may be gone."""


def taken(steps: Work[T], now: Now | None = None) -> T:
    """Takes all steps at once; what they lead to. In: the time, for steps that ask for it: none passes."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = step() if callable(step) else now


def outcome(write: Callable[[], None]) -> OSError | None:
    """Why something could not be written; None when it was."""
    try:
        write()
    except OSError as error:
        return error
    return None
