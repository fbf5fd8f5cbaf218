"""Listening sockets: binds addresses and accepts connections. Bind errors say how to fix them.

Connections are accepted here instead of by the server of the event loop. That server accepts all pending
connections before a limit can apply, and under uvloop it abandons the socket after an error. When the process
has no file descriptor left, accepting pauses for a second; open connections stay.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from coordinator.config.listeners import Address, pack_address
from coordinator.core.daemon_log import OngoingFailures
from coordinator.core.message_text import StartFailed
from storage.storage_errors import format_error_reason

RETRY_S: Final = 1.0
"""The pause of accepting when the process has no free file descriptor, seconds."""

LISTEN_OPTION: Final = "--listen"
HTTP_OPTION: Final = "--http"
_UNAVAILABLE_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PRIVILEGED_PORTS: Final = range(1, 1024)


class ListeningSocket:
    """A socket that accepts connections. `close` closes it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        logger: str,
        accepts_per_turn: int,
        has_capacity: Callable[[], bool],
        on_accepted: Callable[[socket.socket, object], None],
    ) -> None:
        """Create the listening side of a bound socket.

        It accepts up to `accepts_per_turn` connections before other callbacks run. It calls `has_capacity` before
        each one, and pauses without capacity. It passes each accepted socket and the address of its peer to
        `on_accepted`. `logger` is the name of the logger for errors.
        """
        listening.setblocking(False)
        self._loop = loop
        self._socket = listening
        self._log = logging.getLogger(logger)
        self._accepts_per_turn = accepts_per_turn
        self._has_capacity = has_capacity
        self._on_accepted = on_accepted
        self._retry: asyncio.TimerHandle | None = None
        self._failures = OngoingFailures(logger)
        self._is_closed = False

    def open(self) -> None:
        """Start to accept connections, or resume after `pause`."""
        self._retry = None
        if not self._is_closed:
            self._loop.add_reader(self._socket, self._accept)

    def pause(self) -> None:
        """Stop accepting connections until `open` is called. New ones wait in the backlog of the system."""
        self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Stop accepting connections and close the socket."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()
            if self._retry is not None:
                self._retry.cancel()

    def _accept(self) -> None:
        for _ in range(self._accepts_per_turn):
            if not self._has_capacity():
                return
            try:
                accepted, peername = self._socket.accept()
            except BlockingIOError:
                self._failures.record_recovery("Accepting connections")
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_after_error(error)
                return
            self._on_accepted(accepted, peername)

    def _pause_after_error(self, error: OSError) -> None:
        if self._failures.record_failure("Accepting connections", error):
            port = self._socket.getsockname()[1]
            self._log.error("Cannot accept connections on port %d: %s", port, format_error_reason(error))
        self.pause()
        self._retry = self._loop.call_later(RETRY_S, self.open)


def bind_sockets(address: Address, backlog: int, option: str) -> list[socket.socket]:
    """Return the listening sockets of an address, all on one port.

    A wildcard, of IPv4 or IPv6, accepts connections of both, as Java's sockets do. A name like localhost may stand
    for several addresses, some of which the machine lacks, such as IPv6 in many containers: each existing address
    gets a socket.

    `option` names the setting of the address in error messages. Raises StartFailed.
    """
    sockets: list[socket.socket] = []
    try:
        _bind_all(address, backlog, sockets)
    except (OSError, UnicodeError) as error:
        for bound in sockets:
            with contextlib.suppress(OSError):
                bound.close()
        raise StartFailed(
            f"cannot listen on {address}: {_describe_bind_error(address, option, error)}"
        ) from error
    return sockets


def _bind_all(address: Address, backlog: int, sockets: list[socket.socket]) -> None:
    port = address.port
    if address.is_wildcard and socket.has_dualstack_ipv6():
        sockets.append(
            socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        )
        return
    host: str | bytes | None = address.host or None
    if pack_address(address.host):
        host = address.host.encode()  # a str would load the tables of internationalized names
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing: OSError | None = None
    for family, _, _, _, sockaddr in dict.fromkeys(found):
        try:
            sockets.append(socket.create_server((str(sockaddr[0]), port), family=family, backlog=backlog))
        except OSError as error:
            if error.errno not in _UNAVAILABLE_ADDRESS:
                raise
            missing = error
        else:
            port = port or sockets[0].getsockname()[1]
    if missing is not None and not sockets:
        raise missing


def _describe_bind_error(address: Address, option: str, error: OSError | UnicodeError) -> str:
    """Return the reason why an address cannot be bound, and the fix."""
    host, port = address
    if isinstance(error, UnicodeError):
        return f"{host} is not a valid host name"
    advice = f"Listen on every address ({option} 0.0.0.0:{port})"
    if option == LISTEN_OPTION:
        advice += f", and advertise this address to clients (--advertise {address})"
    if isinstance(error, socket.gaierror):
        return f"the host name {host} cannot be resolved ({format_error_reason(error)}). {advice}"
    if error.errno == errno.EADDRINUSE and port:
        remedy = f"Stop that process, or use another port ({option} {Address(host, 0)} uses any free one)"
        if option == HTTP_OPTION:
            remedy += f", or none ({option} off)"
        return f"port {port} is in use, perhaps by another groupd or a Kafka broker. {remedy}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"this machine does not have the address {host}. {advice}"
    if error.errno == errno.EACCES and port in _PRIVILEGED_PORTS:
        return (
            f"ports below {_PRIVILEGED_PORTS.stop} are privileged, and groupd runs as user id {os.geteuid()}. "
            f"Use a higher one, such as {option} {Address(host, 10_000 + port)}"
        )
    # create_server appends the address in a form of its own.
    return format_error_reason(OSError(error.errno, os.strerror(error.errno)) if error.errno else error)
