"""What groups want computed: large targets, and which topics regular expressions match. Both are pure and may take
a second, so a thread does it, one after the other.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.engine.engine import Engine
from coordinator.group.consumer.regular_expressions import REGEX_WORK, resolve_regexes
from coordinator.group.consumer.target import TARGET_WORK, compute_target


def do_group_work(engine: Engine) -> None:
    """From now on the engine knows how the work of groups is done."""
    turn = asyncio.Lock()
    engine.workers[TARGET_WORK] = partial(_done, turn, compute_target)
    engine.workers[REGEX_WORK] = partial(_done, turn, resolve_regexes)


async def _done(turn: asyncio.Lock, compute: Callable[[Any], object], argument: Any) -> object:
    async with turn:
        return await asyncio.to_thread(compute, argument)
