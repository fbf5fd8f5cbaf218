"""Computes large target assignments, and resolves the regular expressions of groups to topics.

Both computations are pure and may take a second, so they run in a thread, one at a time. Expressions that
take longer than `TURN_NS` let other computations run between their steps.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from coordinator.core import clock
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.group.consumer.regex_resolution import REGEX_WORK, resolve_regexes
from coordinator.group.consumer.target_assignment import TARGET_WORK, compute_target
from coordinator.group.modern.partition_assignors import Assignment

MAX_REGEX_NS: Final = 10_000_000_000
"""CPU time for the expressions of one group: 1,000 typical ones take a second for 20,000 topics."""
TURN_NS: Final = 20_000_000
"""CPU time after which other waiting computations get a turn."""

Resolution = Generator[None, None, Mapping[str, Sequence[str]]]


class RegexesTooSlow(Exception):
    """The expressions of a group exceed MAX_REGEX_NS."""

    def __init__(self) -> None:
        super().__init__(f"they take more than {MAX_REGEX_NS // 1_000_000_000} s of a processor")


def create_group_workers(run_queue: RunQueue) -> dict[str, Callable[[Any], Awaitable[object]]]:
    """Return the coroutine function for each kind of work. `run_queue` is that of the event loop."""
    lock = asyncio.Lock()
    return {
        TARGET_WORK: partial(_compute_target, lock),
        REGEX_WORK: partial(_resolve_regexes, lock, run_queue),
    }


async def _compute_target(lock: asyncio.Lock, argument: Any) -> Assignment:
    async with lock:
        return await asyncio.to_thread(compute_target, argument)


async def _resolve_regexes(
    lock: asyncio.Lock, run_queue: RunQueue, argument: Any
) -> Mapping[str, Sequence[str]]:
    resolution, taken_ns = resolve_regexes(argument), 0
    while taken_ns <= MAX_REGEX_NS:
        async with lock:
            found, ns = await asyncio.to_thread(_run_turn, resolution)
        if found is not None:
            return (
                found
                if argument.may_describe is None
                else await _filter_visible(found, argument.may_describe, run_queue)
            )
        taken_ns += ns
    raise RegexesTooSlow


async def _filter_visible(
    found: Mapping[str, Sequence[str]], may_describe: Callable[[str], bool], run_queue: RunQueue
) -> Mapping[str, Sequence[str]]:
    """Return the matching topics that the member may describe.

    This runs on the event loop because ACLs change there. A change of ACLs at a checkpoint counts for the names
    that follow. The next resolution of the expressions finds the rest.
    """
    budget = TimeBudget(run_queue)
    is_visible: dict[str, bool] = {}
    for name in set(chain.from_iterable(found.values())):
        is_visible[name] = may_describe(name)
        await budget.checkpoint()
    visible: dict[str, Sequence[str]] = {}
    for regex, names in found.items():
        visible[regex] = [name for name in names if is_visible[name]]
        await budget.checkpoint()
    return visible


def _run_turn(resolution: Resolution) -> tuple[Mapping[str, Sequence[str]] | None, int]:
    """Run steps for one turn. Return the result and 0, or None and the CPU time in nanoseconds if steps remain."""
    began_ns = clock.thread_time_ns()
    try:
        while clock.thread_time_ns() - began_ns < TURN_NS:
            next(resolution)
    except StopIteration as end:
        found: Mapping[str, Sequence[str]] = end.value
        return found, 0
    return None, clock.thread_time_ns() - began_ns
