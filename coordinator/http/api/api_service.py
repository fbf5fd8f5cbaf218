"""Serves the routes of the API on aiohttp: responses, and streams that are sent piece by piece until the
source, the client or groupd ends them.

Every error below /v1 is a problem document (RFC 9457). A change that has begun is completed even if its
client disconnects.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Final, Literal

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.namespaces.namespace_registry import DEFAULT_NAMESPACE
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.daemon_log import AddressLineLimit
from coordinator.core.message_text import parse_peer_address, printable
from coordinator.http.api.api_messages import (
    BASE_PATH,
    HEADERS,
    JSON_TYPE,
    BodyReader,
    BodyReception,
    bad_request,
    decode_path,
    decode_query,
    is_api,
    is_body_read,
    problem_response,
    text_response,
    value_response,
    wants_text,
)
from coordinator.http.api.api_route import ApiCall, ApiRoute, Chunks, StreamRoute
from coordinator.http.api.openapi import create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from coordinator.http.http_access import ControlAccess, RequestOrigin, parse_host

_LOG: Final = logging.getLogger("Control")

OPENAPI_PATH: Final = f"{BASE_PATH}/openapi.json"
_READ_METHODS: Final = ("GET", "HEAD")
_LOGGED_PROBLEMS: Final = (ProblemKind.BAD_TOKEN, ProblemKind.FOREIGN_HOST, ProblemKind.CONTROL_OFF)
"""The kinds of problems that are logged: refused access."""
_MAX_ACTOR: Final = 100
_IN_NAMESPACE: Final = "in_namespace"
_NAME: Final = re.compile(r"{(\w+)}")


class ApiService:
    """The API of a daemon, created in a running event loop. An application needs `add_routes` for its router and
    `guard` among its middlewares."""

    def __init__(
        self,
        control: DaemonControlPlane,
        access: ControlAccess,
        line_limiter: AddressLineLimit,
        request_timeout_s: float = 20.0,
        body_reception: BodyReception = lambda _: nullcontext(),
        long_request: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Create the service.

        Args:
            control: The control plane of the daemon.
            access: The permissions of callers.
            line_limiter: Limits the log lines about one address.
            request_timeout_s: The time in which a body must arrive, seconds.
            body_reception: Returns a context manager that is active while a body arrives.
            long_request: Returns a context manager that is active during a request that may take long.
        """
        self._control = control
        self._access = access
        self._line_limiter = line_limiter
        self._long_request = long_request
        self._body_reader = BodyReader(request_timeout_s, body_reception)
        self._stream_sender = StreamSender()
        self._openapi = msgspec.json.encode(create_openapi(ALL_ROUTES, ALL_STREAMS))

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add all routes. Routes of one broker also get a path for namespaces."""
        for route in ALL_ROUTES:
            handler = self._create_handler(route)
            for pattern in _list_patterns(route.path, is_of_process=route.is_process_wide):
                router.add_route(route.method, pattern, handler)
                if route.method == "GET":
                    router.add_route("HEAD", pattern, handler)
        for stream in ALL_STREAMS:
            for pattern in _list_patterns(stream.path, is_of_process=False):
                router.add_get(pattern, self._create_stream_handler(stream))
        router.add_get(OPENAPI_PATH, self._answer_openapi)

    def _find_control(self, request: web.Request) -> ControlPlane:
        """Return the control plane of the addressed broker. Raises Problem (no-such-namespace)."""
        name = request.match_info.get(_IN_NAMESPACE, DEFAULT_NAMESPACE)
        return self._control.namespaces.find_control(name) or self._control

    def _create_call(self, request: web.Request, query: type[Struct] | None, body: object) -> ApiCall:
        actor = request.headers.get("X-Groupd-Actor", "").strip()
        named = decode_path(request.match_info)
        named.pop(_IN_NAMESPACE, None)
        return ApiCall(
            path=named,
            query=decode_query(query, request.query.items()),
            body=body,
            actor=printable(actor, _MAX_ACTOR) or None,
            accept=request.headers.get("Accept", ""),
            last_event_id=request.headers.get("Last-Event-ID"),
            why_off=self._access.why_off(),
            needs_token=self._access.token is not None,
            host=parse_host(request.headers.get("Host", "")) or "localhost",
        )

    def close(self) -> None:
        """End all streams of the API."""
        self._stream_sender.close()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Convert every error below /v1 into a problem document."""
        if not is_api(request.path):
            return await handler(request)
        try:
            self._check_sender(request)
            return await handler(request)
        except Problem as problem:
            self._log_refusal(request, problem)
            answer = problem_response(problem)
        except web.HTTPException as error:
            answer = problem_response(_convert_http_error(request, error))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one call that fails is not the daemon
            _LOG.error("%s %s failed", request.method, printable(request.path), exc_info=error)
            detail = "groupd had an internal error; its log has the details."
            answer = problem_response(Problem(ProblemKind.INTERNAL, "The call failed", detail))
        if not is_body_read(request):
            answer.force_close()
        return answer

    def _check_sender(self, request: web.Request) -> None:
        """Check the origin and the permissions of a caller. Raises Problem."""
        caller = _read_origin(request)
        self._access.check_reading(caller)
        if request.method not in _READ_METHODS:
            self._access.check_sender(caller)
        if self._access.guards_reading:
            self._access.check_permission(caller)

    def _log_refusal(self, request: web.Request, problem: Problem) -> None:
        peername = request.transport and request.transport.get_extra_info("peername")
        if problem.kind in _LOGGED_PROBLEMS and self._line_limiter.admit_line(
            "/" + parse_peer_address(peername)
        ):
            _LOG.warning(
                "Refused %s %s from %s: %s",
                *(request.method, printable(request.path), parse_peer_address(peername), problem.title),
            )

    def _create_handler(self, route: ApiRoute) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            if route.changes:
                self._access.check_permission(_read_origin(request))
            if route.needs_enable and not self._control.allows_crash_faults:
                detail = "This harms the process. Set control.enable=true or open to allow it."
                raise Problem(ProblemKind.CONTROL_OFF, "This harms the process", detail)
            body = await self._body_reader.read_value(route.body, request)
            call = self._create_call(request, route.query, body)
            control = self._find_control(request)
            with self._long_request() if route.lasts else nullcontext():
                handled = route.handle(control, call)
                value = await (_finish_change(handled) if route.changes else handled)
            if route.text is not None and wants_text(request.headers.get("Accept", "")):
                return text_response(route.text(value))
            return value_response(value)

        return answer

    def _create_stream_handler(self, route: StreamRoute) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            await self._body_reader.read_value(None, request)
            pieces = await route.open_stream(
                self._find_control(request), self._create_call(request, route.query, None)
            )
            with self._long_request():
                async with aclosing(pieces):
                    return await self._stream_sender.send_stream(request, route, pieces)

        return answer

    async def _answer_openapi(self, request: web.Request) -> web.StreamResponse:
        await self._body_reader.read_value(None, request)
        return web.Response(body=self._openapi, content_type=JSON_TYPE, headers=HEADERS)


def _list_patterns(path: str, *, is_of_process: bool) -> Iterator[str]:
    """Yield the aiohttp patterns of a path. By default aiohttp accepts no name with a brace."""
    pattern = _NAME.sub(r"{\1:[^/]+}", path)
    yield BASE_PATH + pattern
    if not is_of_process:
        yield f"{BASE_PATH}/namespaces/{{{_IN_NAMESPACE}:[^/]+}}{pattern}"


async def _finish_change(change: Awaitable[Any]) -> Any:
    """Complete a change, even if the client disconnects."""
    task = asyncio.ensure_future(change)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def _read_origin(request: web.Request) -> RequestOrigin:
    headers = request.headers
    own = request.transport and request.transport.get_extra_info("sockname")
    return RequestOrigin(
        headers.get("Host"), headers.get("Origin"), headers.get("Authorization"), parse_peer_address(own)
    )


def _convert_http_error(request: web.Request, error: web.HTTPException) -> Problem:
    """Return the problem of an HTTP error of aiohttp."""
    path = printable(request.path)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = sorted(error.allowed_methods)
        detail = f"{path} does not support {printable(request.method)}. Use {', '.join(allowed)}."
        return Problem(ProblemKind.NO_SUCH_METHOD, "The method is not allowed", detail, {"allowed": allowed})
    if isinstance(error, web.HTTPNotFound):
        detail = f"{path} does not exist. {BASE_PATH} lists the operations, {OPENAPI_PATH} describes them."
        return Problem(ProblemKind.NO_SUCH_PATH, "The path does not exist", detail)
    return bad_request("", "The request is invalid", f"{printable(error.reason)}.")


MAX_ENDLESS_STREAMS: Final = 32
"""The maximum number of clients that read endless streams. Each keeps a connection."""


class StreamSender:
    """Sends all streams of the API."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._endless_streams = 0

    def close(self) -> None:
        """End all streams after their current chunk."""
        self._closing.set()

    async def send_stream(
        self, request: web.Request, route: StreamRoute, pieces: Chunks
    ) -> web.StreamResponse:
        """Send chunks until the source, the client or `close` ends the stream. Raises Problem before the first
        chunk."""
        answer = web.StreamResponse(headers=HEADERS)
        answer.content_type = route.content_type
        answer.charset = "utf-8" if route.content_type.startswith("text/") else None
        if request.method == "HEAD":
            await answer.prepare(request)
            return answer
        if route.is_endless and self._endless_streams >= MAX_ENDLESS_STREAMS:
            detail = f"{MAX_ENDLESS_STREAMS} clients already read streams, which is the limit."
            raise Problem(ProblemKind.TOO_MANY, "There are too many readers", detail)
        self._endless_streams += route.is_endless
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await answer.prepare(request)
            while (piece := await self._read_next(pieces, closing)) is not None:
                await answer.write(piece)
            await answer.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            closing.cancel()
            self._endless_streams -= route.is_endless
        return answer

    async def _read_next(self, pieces: Chunks, closing: "asyncio.Future[Literal[True]]") -> bytes | None:
        """Return the next chunk, or None at the end."""
        coming: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(pieces, None))
        both: list[asyncio.Future[Any]] = [coming, closing]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else None
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait([coming])
