"""Virtual time: a queue of scheduled actions and one source of randomness."""

import heapq
import re
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

TRACE_LENGTH: Final = 50
UUID_ZEROS: Final = re.compile("-[0-]{25,}")


class World:
    """Virtual time. Every event is an action in the queue; the clock jumps from one action to the next."""

    def __init__(self, seed: int, show: Callable[[str], None] | None = None) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LENGTH)
        self._show = show
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._values = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedule `action` in `delay_ms`, after earlier actions for the same moment."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now_ms + max(delay_ms, 0), self._scheduled, action))

    def step(self, until_ms: int | None = None) -> bool:
        """Run the next action; return False if none is scheduled before `until_ms`."""
        if not self._queue or (until_ms is not None and self._queue[0][0] > until_ms):
            return False
        self.now_ms, _, action = heapq.heappop(self._queue)
        self.steps += 1
        action()
        return True

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def new_value(self) -> int:
        """Return a number that was never returned before; it identifies one commit."""
        self._values += 1
        return self._values

    def say(self, who: str, what: str) -> None:
        """Log one line of the run: time, actor, event."""
        line = UUID_ZEROS.sub("-", f"{self.now_ms / 1000:>10.3f}  {who:<12} {what}")
        self.trace.append(line)
        if self._show is not None:
            self._show(line)
