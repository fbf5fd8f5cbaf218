"""Measurement of the work of one call in executed bytecodes. Unlike a time, this number is the same in each run."""

from collections.abc import Callable

from benchmarks.execution_counter import ExecutionCounter


def count_bytecodes(call: Callable[[], object]) -> float:
    """Return the number of bytecodes that a call executes."""
    with ExecutionCounter(lambda _: False) as counter:
        call()
    return counter.total.bytecodes
