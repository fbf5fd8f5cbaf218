"""The names of the timers of transactions."""

from enum import IntEnum
from typing import NamedTuple


class TimerKind(IntEnum):
    """What a timer is for."""

    ABORT_TIMED_OUT = 0
    REMOVE_EXPIRED = 1


class TimerKey(NamedTuple):
    """Names a timer. Both are of the whole shard: each looks at a part of its transactions at a time."""

    kind: TimerKind

    def __str__(self) -> str:
        return self.kind.name.lower()
