"""What serves the HTTP port once somebody has come: aiohttp on our connections."""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.console.allowed_hosts import allow_own_hosts
from coordinator.console.api.service import ApiService
from coordinator.console.application import make_application
from coordinator.console.control_access import ControlAccess
from coordinator.console.http_connections import HttpConnection, HttpConnections
from coordinator.console.http_limits import HttpLimits
from coordinator.console.request_log import RequestLog
from coordinator.control.control import Control
from coordinator.net.listening_socket import ListeningSocket
from coordinator.server.broker import Broker
from storage.os_error import reason_of

_LOGGER: Final = "Console"
_LOG: Final = logging.getLogger(_LOGGER)

ACCEPTS_AT_ONCE: Final = 16
"""Connections that are taken before others get their turn."""
MAX_HEADERS: Final = 64
MAX_FIELD_BYTES: Final = 8190
"""Of the request line, and of each header's name and value: cookies of others on this host can be long."""
LINGER_S: Final = 1.0
"""How long a body that nobody wanted is read and dropped, so that its sender gets to read why."""


class HttpService:
    """Made in a running event loop; `start`, then `close`."""

    def __init__(
        self,
        broker: Broker,
        control: Control,
        sockets: Sequence[socket.socket],
        access: ControlAccess,
        limits: HttpLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        """In: bound sockets, and who may do what over them; what they shake hands with, where that is https."""
        self._loop = asyncio.get_running_loop()
        timeout_s = limits.http_request_timeout_ms / 1000
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = limits.http_max_connections if files < 0 else limits.most_connections(files)
        self._connections = connections = HttpConnections(most, timeout_s, broker.lines)

        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await connections.watch(request, handler)

        before: list[Middleware] = [watch, allow_own_hosts(access)]
        self._api = ApiService(
            control, access, broker.lines, timeout_s, connections.receiving, connections.lasting
        )
        self._runner = web.AppRunner(
            make_application(broker, self._api, before, control),
            access_log=None,
            # Counts from the connection or the last answer to the end of a header, however slowly that comes.
            keepalive_timeout=timeout_s,
            lingering_time=LINGER_S,
            max_line_size=MAX_FIELD_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            # Whoever goes away waits for nothing any more.
            handler_cancellation=True,
            logger=RequestLog(broker.lines),
        )
        self._sockets = [
            ListeningSocket(self._loop, bound, _LOGGER, ACCEPTS_AT_ONCE, lambda: True, self._take)
            for bound in sockets
        ]
        self._tls = tls
        self._handshake_timeout_s = None if tls is None else timeout_s
        self._lines = broker.lines
        self._entering: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Lets connections in."""
        await self._runner.setup()
        for listening in self._sockets:
            listening.open()

    def close(self) -> None:
        """Stops listening, and ends answers that would go on."""
        for listening in self._sockets:
            listening.close()
        self._api.close()

    def _take(self, accepted: socket.socket, peername: object) -> None:
        assert self._runner.server is not None
        connection = HttpConnection(self._connections, self._runner.server(), peername)
        if not self._connections.admit(connection):
            accepted.close()
            return
        task = self._loop.create_task(self._enter(accepted, connection))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _enter(self, accepted: socket.socket, connection: HttpConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_timeout_s,
            )
        except OSError as error:
            accepted.close()
            self._connections.remove(connection)
            if self._tls is not None and not self._lines.is_to_be_told(connection.address):
                return
            _LOG.info("The HTTP connection from %s was lost at once: %s", connection.peer, reason_of(error))
