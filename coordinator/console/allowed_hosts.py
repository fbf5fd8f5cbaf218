"""Whom a port answers that is bound to this machine only: requests that name this machine.

A page from elsewhere, opened in a browser that runs here, can have the browser ask for the name of its own server
and let that name stand for 127.0.0.1 (DNS rebinding). Such a request names the foreign server in `Host`, which the
page cannot change. A port that is bound to more than this machine answers whatever is asked for: names of
services and containers are anything.
"""

import ipaddress
import socket
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.net.peer import printable


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only be this machine: localhost and names below it, 127.0.0.0/8, ::1."""
    host = host.lower().removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def are_loopback(sockets: Sequence[socket.socket]) -> bool:
    """Whether listening sockets can be reached from this machine only."""
    return all(is_loopback(str(bound.getsockname()[0])) for bound in sockets)


def host_of(header: str) -> str:
    """The host in a `Host`: without port and brackets."""
    header = header.strip()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def allow_own_hosts(own: str) -> Middleware:
    """Answers 421 to requests for foreign hosts. HTTP/1.0 needs no `Host`, and no browser speaks it. In: the name
    that the port was bound to, which is answered, too."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = host_of(request.headers.get("Host", ""))
        if not host or is_loopback(host) or host.lower() == own.lower():
            return await handler(request)
        text = f"{printable(host)} is not served here, but this machine only (http.listener)\n"
        return web.Response(status=421, reason="Misdirected Request", text=text)

    return check
