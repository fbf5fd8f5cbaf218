"""The connections of the HTTP port: how many there are, and who has to go.

Everybody may come: when there is no place left, the connection goes that has asked for nothing for the longest.
So whoever asks at once is answered, however many others keep connections and say nothing on them. A connection
whose request is being answered stays; so that these do not take every place, what may be long in coming is
answered on some of them only.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.console.http_limits import most_lasting
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.lines_per_address import LinesPerAddress
from coordinator.net.peer import peer_address, peer_name

_LOG: Final = logging.getLogger("Console")


class HttpConnection(asyncio.Protocol):
    """One of them: it stands between the event loop and aiohttp's `speaker` of HTTP."""

    def __init__(self, connections: "HttpConnections", speaker: web.RequestHandler, peername: object) -> None:
        self.address = "/" + peer_address(peername)
        """Of the other end, with Java's slash."""
        self.peer = peer_name(peername)
        self.speaker = speaker
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready to be used."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        self.speaker.connection_made(transport)
        if self._is_aborted:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        self._is_read()
        self._connections.remove(self)
        self.speaker.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self.speaker.data_received(data)

    def eof_received(self) -> None:
        """The client sends nothing more."""
        self.speaker.eof_received()

    def pause_writing(self) -> None:
        """The client reads slower than it asks, or not at all."""
        self.speaker.pause_writing()
        self._is_read()
        loop = asyncio.get_running_loop()
        self._unread = loop.call_later(self._connections.request_timeout_s, self.abort)

    def resume_writing(self) -> None:
        """It has caught up."""
        self._is_read()
        self.speaker.resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def abort(self) -> None:
        """Closes at once."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()


class HttpConnections:
    """All of them."""

    def __init__(self, most: int, request_timeout_s: float, lines: LinesPerAddress) -> None:
        """In: how many there may be; how long an answer may take to be read; who says whether a peer that
        misbehaves is told of."""
        self.request_timeout_s = request_timeout_s
        self._most = most
        self._lines = lines
        self._lasting = 0
        self._open: dict[web.RequestHandler, HttpConnection] = {}
        self._silent: dict[HttpConnection, None] = {}
        """On which no request is being answered, since the longest first."""

    def admit(self, connection: HttpConnection) -> bool:
        """Takes a connection in, in place of another one if need be; False when all others are being answered."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._silent), None)
            self._tell(oldest or connection)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.abort()
        self._open[connection.speaker] = connection
        self._silent[connection] = None
        return True

    def _tell(self, closed: HttpConnection) -> None:
        if self._lines.is_to_be_told(closed.address):
            _LOG.warning(
                "Closing the HTTP connection from %s: there are %d (http.max.connections), and others need a place",
                *(closed.peer, self._most),
            )

    def remove(self, connection: HttpConnection) -> None:
        """Forgets a connection that is closed, or was never open."""
        self._open.pop(connection.speaker, None)
        self._silent.pop(connection, None)

    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A request goes through here: its connection has a right to its place until it is answered."""
        connection = self._open.get(request.protocol)
        if connection is None:
            return await handler(request)
        self._silent.pop(connection, None)
        try:
            return await handler(request)
        finally:
            if connection.speaker in self._open:
                self._silent[connection] = None

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """While an answer is made that may be long in coming. Raises Problem (too-many) where others leave it no
        place."""
        if self._lasting >= most_lasting(self._most):
            detail = (
                f"{self._lasting} waits and streams keep connections already; the others of {self._most} "
                "(http.max.connections) are for what is answered at once."
            )
            raise Problem(ProblemKind.TOO_MANY, "Too many wait", detail)
        self._lasting += 1
        try:
            yield
        finally:
            self._lasting -= 1

    @contextmanager
    def receiving(self, request: web.Request) -> Iterator[None]:
        """While the body of a request comes, its connection has no right to its place: it may come slowly."""
        connection = self._open.get(request.protocol)
        if connection is None:
            yield
            return
        self._silent[connection] = None
        try:
            yield
        finally:
            self._silent.pop(connection, None)
