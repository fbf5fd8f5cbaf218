"""What a fault can do, and where: the fields of `Do`."""

from typing import Final

from coordinator.control.faults.rule import At

_AT_REQUEST: Final = ("error", "delay", "hold", "drop", "swallow")
_ON_DISK: Final = ("fail", "delay")
POSSIBLE: Final[dict[At, tuple[str, ...]]] = {
    "request": _AT_REQUEST,
    "answer": (*_AT_REQUEST, "throttle_ms", "coordinator"),
    "append": _ON_DISK,
    "sync": _ON_DISK,
    "before_append": ("crash",),
    "after_append": ("crash",),
    "after_sync": ("crash",),
    "before_answer": ("crash",),
    "event": ("failover", "freeze", "disconnect", "expire", "release"),
}
"""By where it is done."""
KINDS: Final = tuple(dict.fromkeys(kind for kinds in POSSIBLE.values() for kind in kinds))
