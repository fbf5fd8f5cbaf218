"""Whom a port answers that is bound to this machine only: requests that name this machine. Any port refuses a
malformed `Host`.

A page from elsewhere, opened in a browser that runs here, can have the browser ask for the name of its own server
and let that name stand for 127.0.0.1 (DNS rebinding). Such a request names the foreign server in `Host`, which the
page cannot change. A port that is bound to more than this machine answers whatever is asked for: names of
services and containers are anything. What changes groups asks for more: `control_access.py`.
"""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.console.api.responses import is_api
from coordinator.console.control_access import ControlAccess
from coordinator.console.hosts import parse_host
from coordinator.net.peer import printable


def allow_own_hosts(access: ControlAccess) -> Middleware:
    """Answers 421 to requests for foreign hosts; the API has answers of its own. HTTP/1.0 needs no `Host`, and no
    browser speaks it."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get("Host", "")
        host = parse_host(header)
        is_allowed = host is not None and (not host or not access.is_loopback or access.is_own_name(host))
        if is_allowed or is_api(request.path):
            return await handler(request)
        text = f"{printable(host or header)} is not served here, but this machine only (http.listener)\n"
        if host is None:
            text = f"Host {printable(header)} is not valid: it must be a name or an address, and a port\n"
        return web.Response(status=421, reason="Misdirected Request", text=text)

    return check
