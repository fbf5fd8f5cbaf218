"""Says which groups have committed in what is the future: their clock was ahead, and is lost with its process.

Their offsets live that much longer than retention says.
"""

import logging
from typing import Final

from coordinator.control.clock.group_times import GroupTimes
from coordinator.control.clock.text import duration_text
from coordinator.group.events import Event, GroupLoaded
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Control")
LEAST_MS: Final = 3_600_000
"""The clocks of two machines may differ by less."""
MOST_LINES: Final = 20


class FutureOffsets:
    """Looks at each group when it is loaded."""

    def __init__(self, server: Server, times: GroupTimes) -> None:
        self._runtime = server.runtime
        self._times = times
        self._lines = 0
        server.group_events.listeners.append(self._take)

    def _take(self, partition: int, event: Event, _: int, now: Now) -> None:
        shard = self._runtime.partitions[partition].machine
        if not isinstance(event, GroupLoaded) or shard is None or self._times.of(event.group_id) is not None:
            return
        last_ms = shard.last_commit_ms(event.group_id)
        if last_ms is None or last_ms - now.wall_ms < LEAST_MS or self._lines >= MOST_LINES:
            return
        self._lines += 1
        _LOG.warning(
            "Group %s has committed offsets in what is %s from now: its clock was ahead before it was loaded, and "
            "is not any more. These offsets live that much longer.",
            printable(event.group_id),
            duration_text(last_ms - now.wall_ms),
        )
