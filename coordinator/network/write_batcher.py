"""One write for each connection in an iteration of the event loop.

Responses become ready in groups: one sync releases the commits of many connections, one completed join phase
answers every member. `WriteBatcher` writes to each connection once the group is complete.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

_LOG: Final = logging.getLogger("SocketServer")


class WriteBatcher:
    """Calls of `flush`, one for each key, at the end of the iteration."""

    __slots__ = ("_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._scheduled: list[Callable[[], None]] = []

    def schedule_flush(self, flush: Callable[[], None]) -> None:
        """Calls `flush` once, soon. The caller sees to it that it asks only once."""
        if not self._scheduled:
            self._loop.call_soon(self._flush_all)
        self._scheduled.append(flush)

    def _flush_all(self) -> None:
        due, self._scheduled = self._scheduled, []
        for flush in due:
            try:
                flush()
            except Exception as problem:  # noqa: BLE001 - the other connections get their answers all the same
                _LOG.error("Failed to write to a connection", exc_info=problem)
