"""The HTTP port: an index page, /health, /ready, /metrics.

The port is bound at the start; what serves it is imported when the first connection comes, in another thread, so
that a daemon that nobody looks at does not pay for it and one that is looked at does not stop for it.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coordinator.server.broker import Broker

if TYPE_CHECKING:
    from aiohttp import web

_LOG = logging.getLogger("Console")


class HttpServer:
    """Serves the state of a broker on bound sockets."""

    def __init__(self, broker: Broker, sockets: Sequence[socket.socket]) -> None:
        self._broker = broker
        self._sockets = sockets
        self._loop = asyncio.get_running_loop()
        self._runner: web.AppRunner | None = None
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Waits for the first connection."""
        for bound in self._sockets:
            bound.setblocking(False)
            self._loop.add_reader(bound, self._wake)

    def _wake(self) -> None:
        for bound in self._sockets:
            self._loop.remove_reader(bound)
        self._starting = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            application = await self._loop.run_in_executor(None, _import_application)
            from aiohttp import web

            self._runner = web.AppRunner(application(self._broker), access_log=None, handle_signals=False)
            await self._runner.setup()
            for bound in self._sockets:
                await web.SockSite(self._runner, bound).start()
        except Exception as problem:  # noqa: BLE001 - the coordinator runs without its console
            _LOG.error("The HTTP port cannot be served", exc_info=problem)

    def close(self) -> None:
        """Stops listening. Connections that are open end with the process."""
        if self._starting is not None:
            self._starting.cancel()
        for bound in self._sockets:
            self._loop.remove_reader(bound)
            bound.close()


def _import_application() -> Any:
    from coordinator.console.application import make_application

    return make_application
