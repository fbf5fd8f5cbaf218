"""Lines that would come again and again, such as those of a client that does not take no for an answer: each is
written once a minute at most, and says then how often it would have been.
"""

from collections.abc import Hashable
from typing import Final

from coordinator import clock

PERIOD_MS: Final = 60_000
MAX_KEYS: Final = 500
"""What is told apart within a period; whatever comes beyond it counts as one."""
_OTHERS: Final = 0


class LineLimit:
    """What had a line within the last minute. Keys come from clients, so that only their hashes are kept."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, int]] = {}
        """When the line was written (monotonic milliseconds) and how often it would have been since; the oldest
        line first."""

    def admit(self, *key: Hashable) -> int:
        """How often `key` came since its last line, this time included, if it is to have one now; else 0."""
        now_ms = clock.monotonic_ms()
        name = hash(key)
        if name not in self._told and len(self._told) >= MAX_KEYS and not self._forget_oldest(now_ms):
            name = _OTHERS
        told_ms, untold = self._told.get(name, (now_ms - PERIOD_MS, 0))
        if now_ms - told_ms < PERIOD_MS:
            self._told[name] = (told_ms, untold + 1)
            return 0
        self._told.pop(name, None)
        self._told[name] = (now_ms, 0)
        return untold + 1

    def _forget_oldest(self, now_ms: int) -> bool:
        """Makes room, if the oldest line may be written again anyway."""
        oldest = next(iter(self._told))
        if now_ms - self._told[oldest][0] < PERIOD_MS:
            return False
        del self._told[oldest]
        return True
