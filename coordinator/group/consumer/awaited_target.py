"""A target that is computed elsewhere, and who waits for it."""

from dataclasses import dataclass
from typing import Any

from coordinator.group.consumer.target import TargetWork
from coordinator.machine.outcome import Context


@dataclass(slots=True)
class AwaitedTarget:
    """The first of those who are `parked` needs it; the others came behind."""

    work: TargetWork
    parked: list[tuple[Any, Context]]
