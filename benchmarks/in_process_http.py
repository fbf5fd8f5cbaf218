"""The HTTP port of an `InProcessServer`, and the command `groupd` beside it, without sockets.

The service is the daemon's, with aiohttp. The command is the real one, too, with urllib3; its socket hands every
request to the service and has the answer at once.
"""

import io
import os
import socket
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from typing import Final, cast
from unittest.mock import patch

from benchmarks.in_process import AcceptedSocket, InProcessServer
from coordinator.broker.server_view import ServerView
from coordinator.cli.main import main
from coordinator.http.http_access import ControlAccess, HttpLimits
from coordinator.http.http_service import HttpService

HOST: Final = "127.0.0.1"
URL: Final = f"http://{HOST}:9080"
_PEERNAME: Final = (HOST, 50_000)


class _ListeningSocket:
    """A bound socket with a backlog of connections."""

    def __init__(self) -> None:
        self.backlog: list[AcceptedSocket] = []

    def setblocking(self, _: bool) -> None:
        """It never blocks."""

    def accept(self) -> tuple[AcceptedSocket, tuple[str, int]]:
        if not self.backlog:
            raise BlockingIOError
        return self.backlog.pop(0), _PEERNAME

    def close(self) -> None:
        """No system resource is held."""


class InProcessHttp:
    """The HTTP service of a server with a control plane. Clients need no token."""

    def __init__(self, server: InProcessServer) -> None:
        assert server.control is not None, "the server has no control plane"
        self._loop = server.loop
        self._listening = _ListeningSocket()
        control, sockets = server.control, [cast("socket.socket", self._listening)]
        access = ControlAccess(own_host=HOST, is_loopback=True)
        limits = server.server.settings.config.view(HttpLimits)
        service = self._loop.run(
            lambda: HttpService(
                ServerView(server.server), control.get_or_create(), sockets, access, limits, None
            )
        )
        self._loop.create_task(service.start())
        self._loop.run_until_idle()

    def accept(self) -> AcceptedSocket:
        """Accept a new connection. Return the server's end of it."""
        accepted = AcceptedSocket()
        self._listening.backlog.append(accepted)
        self._loop.call_reader(self._listening)
        self._loop.run_until_idle()
        return accepted

    def exchange(self, accepted: AcceptedSocket, request: bytes) -> bytes:
        """Deliver a request and run the event loop until it is idle. Return the answer."""
        self._loop.call_soon(accepted.protocol.data_received, request)
        self._loop.run_until_idle()
        return accepted.transport.take_received()


class _CommandSocket:
    """The command's end of a connection, with the methods that urllib3 calls."""

    def __init__(self, http: InProcessHttp, around_request: AbstractContextManager[object]) -> None:
        self._http = http
        self._around_request = around_request
        self._accepted = http.accept()
        self._answer = b""

    def sendall(self, data: bytes) -> None:
        with self._around_request:
            self._answer += self._http.exchange(self._accepted, bytes(data))

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._answer)

    def settimeout(self, _: float | None) -> None:
        """Nothing waits."""

    def shutdown(self, _: int) -> None:
        """The server keeps its end."""

    def close(self) -> None:
        """The server keeps its end."""


def run_command(
    http: InProcessHttp,
    arguments: Sequence[str],
    around_command: AbstractContextManager[object],
    around_request: AbstractContextManager[object],
) -> str:
    """Run `groupd ARGUMENTS`, which sends one request to the service, and return its output.

    The command writes to a buffer and ignores groupd's variables in the environment. The service accepts the
    connection before the command begins.

    Args:
        http: the service.
        arguments: the command line.
        around_command: measures the whole command.
        around_request: measures the work of the service within it.

    Raises:
        RuntimeError: the exit code is not 0.
    """
    command_socket = _CommandSocket(http, around_request)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GROUPD_")}
    output, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment, clear=True),
        patch("urllib3.util.connection.create_connection", lambda *_, **__: command_socket),
        warnings.catch_warnings(),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            with around_command:
                main([*arguments, "--url", URL])
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"groupd ended with {ended.code}: {errors.getvalue()}") from None
    return output.getvalue()
