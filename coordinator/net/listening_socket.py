"""A listening socket, and when it is left alone.

Connections are taken from the socket here, not by the event loop's own server, which takes all that there are
before anybody can say that it is enough, and with uvloop gives the socket up over an error. When the process runs
out of descriptors, nobody is let in for a second; who is connected stays so.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from coordinator.ongoing_failures import OngoingFailures
from storage.os_error import reason_of

RETRY_S: Final = 1.0
"""How long nobody is let in when the system has no descriptor left."""


class ListeningSocket:
    """One of them. It is closed by `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        logger: str,
        at_once: int,
        has_place: Callable[[], bool],
        take: Callable[[socket.socket, object], None],
    ) -> None:
        """In: the name under which trouble is told; how many connections are taken before others get their turn;
        whether there is place for one more, asked before each, and who says no pauses this until there is; who gets
        it, and what the system calls its other end."""
        listening.setblocking(False)
        self._loop = loop
        self._socket = listening
        self._log = logging.getLogger(logger)
        self._at_once = at_once
        self._has_place = has_place
        self._take = take
        self._retry: asyncio.TimerHandle | None = None
        self._failures = OngoingFailures(logger)
        self._is_closed = False

    def open(self) -> None:
        """Lets connections in, from now on or again."""
        self._retry = None
        if not self._is_closed:
            self._loop.add_reader(self._socket, self._accept)

    def pause(self) -> None:
        """Lets them wait in the system's backlog, until `open` is called."""
        self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Lets nobody in any more."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()
            if self._retry is not None:
                self._retry.cancel()

    def _accept(self) -> None:
        for _ in range(self._at_once):
            if not self._has_place():
                return
            try:
                accepted, peername = self._socket.accept()
            except BlockingIOError:
                self._failures.is_over("Accepting connections")
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._shut(error)
                return
            self._take(accepted, peername)

    def _shut(self, error: OSError) -> None:
        if self._failures.failed("Accepting connections", error):
            port = self._socket.getsockname()[1]
            self._log.error("Cannot accept connections on port %d: %s", port, reason_of(error))
        self.pause()
        self._retry = self._loop.call_later(RETRY_S, self.open)
