"""Counts the work of one call of the core, which is the same in each run: no clock is read."""

from collections.abc import Callable

from benchmarks.execution_counter import ExecutionCounter


def count_bytecodes(call: Callable[[], object]) -> float:
    """Return how many bytecodes a call executes."""
    with ExecutionCounter(lambda _: False) as counter:
        call()
    return counter.total.bytecodes
