"""The HTTP service: the aiohttp application, its connections and their limit, and log lines for errors of
peers.

The application serves `/`, `/health`, `/ready`, `/metrics`, `/metrics/groups` and the API. A port on a
loopback address answers only requests that name this machine; every port refuses a malformed `Host`. A web
page of another site can let its own server's name stand for 127.0.0.1 (DNS rebinding). Such a request names
that server in `Host`, which the page cannot change. A port that other machines can reach takes any name,
because services and containers may have any. Changes have stricter rules (`ControlAccess`).

When there are too many connections, a new one replaces the connection that has been idle for the longest
time, so that a new request gets its response however many idle connections there are. A new one is refused
only while all others have a request in progress. Long requests (waits and streams) may occupy only some of
the connections.

aiohttp logs a malformed request with a traceback. Here that is one line, and each peer gets a few lines and
then a count. Errors of groupd itself keep their traceback.
"""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from coordinator.broker.server_view import ServerOverview, ServerView
from coordinator.control.coalesced_call import CoalescedCall
from coordinator.control.control_plane import ControlPlane
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.field_parsers import invalid_field_problem
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.daemon_log import AddressLineLimit
from coordinator.core.message_text import format_peer, parse_peer_address, printable
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.http.api.api_messages import is_api
from coordinator.http.api.api_service import ApiService
from coordinator.http.http_access import ControlAccess, HttpLimits, find_max_long_requests, parse_host
from coordinator.http.index_page import INDEX_FILE, MAX_TEXT, create_page_response, format_index
from coordinator.http.metrics_page import CONTENT_TYPE, EVERY_GROUP, MetricsPage
from coordinator.network.listening_socket import ListeningSocket
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("Console")


class HttpConnection(asyncio.Protocol):
    """A connection between the event loop and aiohttp's `request_handler`."""

    def __init__(
        self, connections: "HttpConnections", request_handler: web.RequestHandler, peername: object
    ) -> None:
        self.address = "/" + parse_peer_address(peername)
        """The address of the client, with a slash as in Java."""
        self.peer = format_peer(peername)
        self.request_handler = request_handler
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the transport of the new connection to aiohttp."""
        # uvloop's transports have the interface of asyncio's and are not subclasses of it.
        self._transport = cast("asyncio.Transport", transport)
        self.request_handler.connection_made(transport)
        if self._is_aborted:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the place of the closed connection."""
        self._transport = None
        self._cancel_unread_timer()
        self._connections.remove_connection(self)
        self.request_handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes from the client to aiohttp."""
        self.request_handler.data_received(data)

    def eof_received(self) -> None:
        """Report the end of the client's data to aiohttp."""
        self.request_handler.eof_received()

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read its response."""
        self.request_handler.pause_writing()
        self._cancel_unread_timer()
        loop = asyncio.get_running_loop()
        self._unread_timer = loop.call_later(self._connections.request_timeout_s, self.abort)

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read the response."""
        self._cancel_unread_timer()
        self.request_handler.resume_writing()

    def _cancel_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()


class HttpConnections:
    """All HTTP connections of a port, and their limit."""

    def __init__(
        self, max_connections: int, request_timeout_s: float, line_limiter: AddressLineLimit
    ) -> None:
        """Create an empty set of connections.

        Args:
            max_connections: The maximum number of connections.
            request_timeout_s: The time in which a client must read a response, seconds.
            line_limiter: Limits the log lines about one address.
        """
        self.request_timeout_s = request_timeout_s
        self._max_connections = max_connections
        self._line_limiter = line_limiter
        self._long_requests = 0
        self._open: dict[web.RequestHandler, HttpConnection] = {}
        self._idle: dict[HttpConnection, None] = {}
        """The connections without a request in progress. The one that has been idle for the longest time comes
        first."""

    def admit_connection(self, connection: HttpConnection) -> bool:
        """Admit a connection, and close the longest idle one if the limit is reached. Return False if all others
        have a request in progress."""
        if len(self._open) >= self._max_connections:
            oldest = next(iter(self._idle), None)
            self._warn_of_close(oldest or connection)
            if oldest is None:
                return False
            self.remove_connection(oldest)
            oldest.abort()
        self._open[connection.request_handler] = connection
        self._idle[connection] = None
        return True

    def _warn_of_close(self, closed: HttpConnection) -> None:
        if self._line_limiter.admit_line(closed.address):
            _LOG.warning(
                "Closing the HTTP connection from %s: the limit of %d connections "
                "(http.max.connections) is reached",
                *(closed.peer, self._max_connections),
            )

    def remove_connection(self, connection: HttpConnection) -> None:
        """Forget a connection that is closed or was refused."""
        self._open.pop(connection.request_handler, None)
        self._idle.pop(connection, None)

    async def handle_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle a request. Its connection is not idle until the response is complete."""
        connection = self._open.get(request.protocol)
        if connection is None:
            return await handler(request)
        self._idle.pop(connection, None)
        try:
            return await handler(request)
        finally:
            if connection.request_handler in self._open:
                self._idle[connection] = None

    @contextmanager
    def long_request(self) -> Iterator[None]:
        """Return a context manager for a request that may take long. Raises Problem (too-many) if such requests
        use all connections that they may have."""
        if self._long_requests >= find_max_long_requests(self._max_connections):
            detail = (
                f"{self._long_requests} waits and streams already use connections; the remaining ones of "
                f"{self._max_connections} (http.max.connections) are reserved for short requests."
            )
            raise Problem(ProblemKind.TOO_MANY, "Too many waits", detail)
        self._long_requests += 1
        try:
            yield
        finally:
            self._long_requests -= 1

    @contextmanager
    def body_reception(self, request: web.Request) -> Iterator[None]:
        """Return a context manager for the arrival of a body. The connection counts as idle meanwhile, because a
        client can send a body slowly."""
        connection = self._open.get(request.protocol)
        if connection is None:
            yield
            return
        self._idle[connection] = None
        try:
            yield
        finally:
            self._idle.pop(connection, None)


_PEER_ERRORS: Final = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""The errors that a peer causes."""


class RequestLog(logging.Logger):
    """Receives the log lines of aiohttp for one server."""

    def __init__(self, line_limiter: AddressLineLimit) -> None:
        """Create a log. `line_limiter` limits the lines about one address."""
        super().__init__(_LOG.name)
        self._line_limiter = line_limiter

    def _log(
        self, level: int, msg: object, args: Any, exc_info: Any = None, *_: object, **__: object
    ) -> None:
        # All methods of a logger call this one.
        if isinstance(exc_info, _PEER_ERRORS):
            peer = str(args[0]) if args else "a peer"
            if self._line_limiter.admit_line("/" + peer):
                reason = exc_info.message if isinstance(exc_info, HttpProcessingError) else str(exc_info)
                _LOG.warning("Refused a request from %s to the HTTP port: %s", peer, _first_line(reason))
        elif level >= logging.WARNING:
            assert not isinstance(args, Mapping)
            _LOG.log(level, str(msg), *args, exc_info=exc_info)


def _first_line(reason: str) -> str:
    return printable(reason.partition("\n")[0].removesuffix(":")) or "no HTTP"


ACCEPTS_AT_ONCE: Final = 16
"""The number of connections that are accepted in a row, before other events of the loop."""
MAX_HEADERS: Final = 64
MAX_FIELD_BYTES: Final = 8190
"""The maximum size of the request line, and of the name and value of a header, in bytes. Cookies of other
services on this host can be long."""
LINGER_S: Final = 1.0
"""The duration in seconds for which an unwanted body is read and dropped, so that its sender can read the
response."""


class HttpService:
    """The HTTP service of a broker, created in a running event loop."""

    def __init__(
        self,
        broker: ServerView,
        control: DaemonControlPlane,
        sockets: Sequence[socket.socket],
        access: ControlAccess,
        limits: HttpLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Create the service of bound sockets. `access` has the permissions, `tls` the TLS context of https."""
        self._loop = asyncio.get_running_loop()
        timeout_s = limits.http_request_timeout_ms / 1000
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = limits.http_max_connections if files < 0 else limits.find_max_connections(files)
        self._connections = connections = HttpConnections(most, timeout_s, broker.line_limit)

        @web.middleware
        async def track_request(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await connections.handle_request(request, handler)

        middlewares: list[Middleware] = [track_request, allow_own_hosts(access)]
        self._api = ApiService(
            control,
            access,
            broker.line_limit,
            timeout_s,
            connections.body_reception,
            connections.long_request,
        )
        self._runner = web.AppRunner(
            create_application(broker, self._api, middlewares, control),
            access_log=None,
            # The timeout covers the time from the connection or the last response to the end of the headers.
            keepalive_timeout=timeout_s,
            lingering_time=LINGER_S,
            max_line_size=MAX_FIELD_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            # A request of a disconnected client is cancelled.
            handler_cancellation=True,
            logger=RequestLog(broker.line_limit),
        )
        self._sockets = [
            ListeningSocket(self._loop, bound, _LOG.name, ACCEPTS_AT_ONCE, lambda: True, self._on_accept)
            for bound in sockets
        ]
        self._tls = tls
        self._handshake_timeout_s = None if tls is None else timeout_s
        self._line_limiter = broker.line_limit
        self._connecting: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Accept connections from now on."""
        await self._runner.setup()
        for listening in self._sockets:
            listening.open()

    def close(self) -> None:
        """Stop listening, and end all streams."""
        for listening in self._sockets:
            listening.close()
        self._api.close()

    def _on_accept(self, accepted: socket.socket, peername: object) -> None:
        assert self._runner.server is not None
        connection = HttpConnection(self._connections, self._runner.server(), peername)
        if not self._connections.admit_connection(connection):
            accepted.close()
            return
        task = self._loop.create_task(self._connect(accepted, connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket, connection: HttpConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_timeout_s,
            )
        except OSError as error:
            accepted.close()
            self._connections.remove_connection(connection)
            if self._tls is not None and not self._line_limiter.admit_line(connection.address):
                return
            _LOG.info(
                "The HTTP connection from %s was lost at once: %s",
                connection.peer,
                format_error_reason(error),
            )


PATHS: Final = {
    "/v1": "query and change groups, with curl or a program",
    "/health": "whether the process runs",
    "/ready": "whether every group is loaded, and the disk takes commits",
    "/metrics": "metrics of the broker, for Prometheus",
    "/metrics/groups": "metrics of each group with its lag; ?match=billing* selects groups",
}
"""The paths besides the index page, each with its meaning."""

_PARTITION_CONTENTS: Final = {CONSUMER_OFFSETS: "groups", TRANSACTION_STATE: "transactional producers"}
"""The contents of the partitions of internal topics."""
_METRICS_HEADERS: Final = {"Content-Type": CONTENT_TYPE}
_INDEX_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
}


def create_application(
    broker: ServerView,
    api: ApiService | None = None,
    outer_middlewares: Iterable[Middleware] = (),
    control: ControlPlane | None = None,
) -> web.Application:
    """Return the application with its routes.

    The routes are / (index), /health (the process lives), /ready (every group is loaded, and the disk accepts
    commits), /metrics and /metrics/groups (Prometheus), and those of the API. `outer_middlewares` see every
    request, in their order.
    """

    async def overview() -> ServerOverview:
        return broker.create_overview()

    overview_call = CoalescedCall(overview)

    async def index(request: web.Request) -> web.Response:
        # Browsers name HTML in Accept; curl and similar clients accept anything.
        if "text/html" in request.headers.get("Accept", "").lower():
            answer = create_page_response(request, INDEX_FILE)
            answer.headers["Vary"] = "Accept"
            return answer
        return web.Response(
            text=format_index(await overview_call.get_result(), PATHS), headers=_INDEX_HEADERS
        )

    async def static(request: web.Request) -> web.Response:
        return create_page_response(request, request.match_info["name"])

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        now = broker.standing
        if now != "ready":
            return web.Response(status=503, text=f"{now}\n")
        refusal = broker.find_disk_refusal()
        if refusal is not None:
            # Clients must not be sent to this broker: they could read their offsets, but not commit.
            return web.Response(
                status=503, text=f"the disk refuses commits: {printable(refusal, MAX_TEXT)}\n"
            )
        failed = [
            f"{name} could not be read: its {_PARTITION_CONTENTS[name.topic]} are out of service\n"
            for name in broker.list_failed_partitions()
        ]
        offline = broker.describe_offline_partitions()
        if offline is not None:
            failed.append(f"{offline}\n")
        return web.Response(text="".join(["ready\n", *failed]))

    guards = [] if api is None else [api.guard]
    application = web.Application(
        middlewares=[*outer_middlewares, *guards, _refuse_bodies, _list_paths_if_not_found]
    )
    application.router.add_get("/", index)
    application.router.add_get("/static/{name:.+}", static)
    application.router.add_get("/health", health)
    application.router.add_get("/ready", ready)
    _add_metrics(application.router, MetricsPage(broker, control))
    if api is not None:
        api.add_routes(application.router)
    return application


def _add_metrics(router: web.UrlDispatcher, page: MetricsPage) -> None:
    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=await page.render_broker(), headers=_METRICS_HEADERS)

    async def group_metrics(request: web.Request) -> web.Response:
        unknown = next((name for name in request.query if name != "match"), None)
        try:
            if unknown is not None:
                raise invalid_field_problem(unknown, "the only parameter is match")
            text = await page.render_groups(
                request.query.getall("match", [EVERY_GROUP]), request.headers.get("Accept", "")
            )
        except Problem as problem:
            return web.Response(status=400, text=f"{printable(problem.detail, MAX_TEXT)}\n")
        return web.Response(body=text, headers=_METRICS_HEADERS)

    router.add_get("/metrics", metrics)
    router.add_get("/metrics/groups", group_metrics)


@web.middleware
async def _refuse_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a body. These paths take none, and the API checks its own bodies."""
    if not request.body_exists or is_api(request.path):
        return await handler(request)
    answer = web.Response(status=413, text="These paths take no body\n")
    answer.force_close()
    return answer


@web.middleware
async def _list_paths_if_not_found(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer an unknown path with the list of paths."""
    if isinstance(request.match_info.http_exception, web.HTTPNotFound) and not is_api(request.path):
        return web.Response(
            status=404, text=f"The path does not exist. The paths are {', '.join(['/', *PATHS])}\n"
        )
    return await handler(request)


def allow_own_hosts(access: ControlAccess) -> Middleware:
    """Return a middleware that answers 421 to requests for foreign hosts outside the API. HTTP/1.0 does not
    require `Host`, and no browser uses HTTP/1.0."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get("Host", "")
        host = parse_host(header)
        is_allowed = host is not None and (not host or not access.is_loopback or access.is_own_name(host))
        if is_allowed or is_api(request.path):
            return await handler(request)
        text = (
            f"{printable(host or header)} is not a name of this machine, and the port serves only "
            "this machine (http.listener)\n"
        )
        if host is None:
            text = f"Host {printable(header)} is not valid: it must be a name or an address, and a port\n"
        return web.Response(status=421, reason="Misdirected Request", text=text)

    return check
