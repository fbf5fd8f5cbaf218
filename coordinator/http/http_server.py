"""The HTTP port: an index page, /health, /ready, /metrics, and the API below /v1.

groupd binds the port at the start. A thread imports the service (`http_service.py`) with the first
connection. So a daemon without HTTP clients does not pay for it, and the event loop does not wait for the
import. If the configuration turns control on explicitly, the import begins when all groups are loaded."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.broker.server_view import ServerView
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.http.http_access import ControlAccess, HttpLimits

if TYPE_CHECKING:
    import ssl

    from coordinator.http.http_service import HttpService

_LOG = logging.getLogger("Console")


class HttpServer:
    """Serves the state of a broker on bound sockets."""

    def __init__(
        self,
        broker: ServerView,
        control: LazyControlPlane,
        sockets: Sequence[socket.socket],
        access: ControlAccess,
        limits: HttpLimits,
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        """Create the server of bound sockets. `access` has the permissions, `tls` the TLS context of https."""
        self._broker = broker
        self._control = control
        self._sockets = sockets
        self._access = access
        self._limits = limits
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._service: HttpService | None = None
        self._start_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Wait for the first connection."""
        for bound in self._sockets:
            bound.setblocking(False)
            self._loop.add_reader(bound, self._on_first_connection)

    def warm_up(self) -> None:
        """Import the service before the first connection, if the configuration turns control on explicitly."""
        if self._access.is_enabled_explicitly and self._sockets and self._start_task is None:
            self._on_first_connection()

    def _on_first_connection(self) -> None:
        for bound in self._sockets:
            self._loop.remove_reader(bound)
        self._start_task = self._loop.create_task(self._start_service())

    async def _start_service(self) -> None:
        try:
            service = await self._loop.run_in_executor(None, _import_service)
            control = self._control.get_or_create()
            self._service = service(
                self._broker, control, self._sockets, self._access, self._limits, self._tls
            )
            await self._service.start()
        except Exception as problem:  # noqa: BLE001 - the coordinator runs without its console
            _LOG.error("The HTTP port failed", exc_info=problem)
            for bound in self._sockets:
                bound.close()

    def close(self) -> None:
        """Stop listening, and end all streams. Open connections end with the process."""
        if self._start_task is not None:
            self._start_task.cancel()
        if self._service is not None:
            self._service.close()
            return
        for bound in self._sockets:
            self._loop.remove_reader(bound)
            bound.close()


def _import_service() -> "type[HttpService]":
    from coordinator.http.http_service import HttpService

    return HttpService
