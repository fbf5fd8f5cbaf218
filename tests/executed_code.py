"""How much code one call executes: a measure of its work that does not depend on how busy the machine is."""

from collections.abc import Callable
from typing import TypeVar

from benchmarks.execution_counter import ExecutionCounter

T = TypeVar("T")


def count_bytecodes(call: Callable[[], T]) -> tuple[T, int]:
    """Return the result of a call, and how many bytecodes this thread executes in it. A call into C counts
    as one."""
    counter = ExecutionCounter(lambda code: False)
    with counter:
        result = call()
    return result, int(counter.total.bytecodes)
