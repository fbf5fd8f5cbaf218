"""Steps for another thread, all in the thread of the test."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def run_lookup(steps: Generator[Callable[[], Any], Any, T]) -> T:
    """Run all steps of a lookup or of a load and return its result."""
    result = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = step()
