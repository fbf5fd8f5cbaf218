"""Connections that have something to send, written once per iteration of the event loop.

Answers come due in bunches: one sync releases the commits of many connections, one finished join phase answers
every member. Each connection is written to once when the bunch is complete.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

_LOG: Final = logging.getLogger("SocketServer")


class Outbox:
    """Calls of `flush`, one for each key, at the end of the iteration."""

    __slots__ = ("_due", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[Callable[[], None]] = []

    def add(self, flush: Callable[[], None]) -> None:
        """Calls `flush` once, soon. The caller sees to it that it asks only once."""
        if not self._due:
            self._loop.call_soon(self._run)
        self._due.append(flush)

    def _run(self) -> None:
        due, self._due = self._due, []
        for flush in due:
            try:
                flush()
            except Exception as problem:  # noqa: BLE001 - the other connections get their answers all the same
                _LOG.error("Failed to write to a connection", exc_info=problem)
