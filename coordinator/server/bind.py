"""Listening sockets, and what to do when an address cannot be had."""

import contextlib
import errno
import os
import socket
from typing import Final

from coordinator.config.listeners import Address
from coordinator.server.start_failed import StartFailed
from storage.os_error import reason_of

LISTEN: Final = "--listen"
HTTP: Final = "--http"

_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PRIVILEGED_PORTS: Final = range(1, 1024)


def bind(address: Address, backlog: int, option: str) -> list[socket.socket]:
    """Return the listening sockets of an address, all on one port.

    A wildcard, of IPv4 or IPv6, accepts connections of both, as Java's sockets do. A name like localhost may stand
    for several addresses, some of which the machine lacks, such as IPv6 in many containers: each existing address
    gets a socket.

    `option` names the setting of the address in error messages. Raises StartFailed.
    """
    sockets: list[socket.socket] = []
    try:
        _bind(address, backlog, sockets)
    except (OSError, UnicodeError) as error:
        for bound in sockets:
            with contextlib.suppress(OSError):
                bound.close()
        raise StartFailed(f"cannot listen on {address}: {_why_not(address, option, error)}") from error
    return sockets


def _bind(address: Address, backlog: int, sockets: list[socket.socket]) -> None:
    port = address.port
    if address.is_wildcard and socket.has_dualstack_ipv6():
        sockets.append(
            socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        )
        return
    found = socket.getaddrinfo(address.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing: OSError | None = None
    for family, _, _, _, sockaddr in dict.fromkeys(found):
        try:
            sockets.append(socket.create_server((str(sockaddr[0]), port), family=family, backlog=backlog))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            missing = error
        else:
            port = port or sockets[0].getsockname()[1]
    if missing is not None and not sockets:
        raise missing


def _why_not(address: Address, option: str, error: OSError | UnicodeError) -> str:
    """Why an address cannot be had, and what to do."""
    host, port = address
    if isinstance(error, UnicodeError):
        return f"{host} cannot be the name of a host"
    everywhere = f"Listen on every address ({option} 0.0.0.0:{port})"
    if option == LISTEN:
        everywhere += f", and tell clients to come to this one (--advertise {address})"
    if isinstance(error, socket.gaierror):
        return f"the name {host} is not known here ({reason_of(error)}). {everywhere}"
    if error.errno == errno.EADDRINUSE and port:
        remedy = f"Stop that, or take another port ({option} {Address(host, 0)} takes any free one)"
        if option == HTTP:
            remedy += f", or none ({option} off)"
        return f"port {port} is in use, perhaps by another groupd or a Kafka broker. {remedy}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine. {everywhere}"
    if error.errno == errno.EACCES and port in _PRIVILEGED_PORTS:
        return (
            f"ports below {_PRIVILEGED_PORTS.stop} are privileged, and groupd runs as user id {os.geteuid()}. "
            f"Take a higher one, such as {option} {Address(host, 10_000 + port)}"
        )
    # create_server adds the address in its own form.
    return reason_of(OSError(error.errno, os.strerror(error.errno)) if error.errno else error)
