"""The names of the timers of groups."""

from enum import IntEnum
from typing import NamedTuple


class TimerKind(IntEnum):
    """What a timer is for."""

    HEARTBEAT = 0
    JOIN = 1
    SYNC = 2
    EXPIRE_OFFSETS = 3
    REPORT = 4
    CONSUMER_SESSION = 5
    CONSUMER_REBALANCE = 6


class TimerKey(NamedTuple):
    """Names a timer: HEARTBEAT per member (pending ones too), JOIN, SYNC and REPORT per group, EXPIRE_OFFSETS
    per shard; CONSUMER_SESSION and CONSUMER_REBALANCE per member of a consumer group. What the kind does not need
    is ""."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""

    def __str__(self) -> str:
        return "-".join([self.kind.name.lower(), *(part for part in self[1:] if part)])
