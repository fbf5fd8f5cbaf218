"""What serves the routes of the API on aiohttp, and sees to it that whatever is answered below /v1 is JSON."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from coordinator.console.api.bodies import Bodies, Receiving, is_read
from coordinator.console.api.openapi import openapi
from coordinator.console.api.piecewise import Piecewise
from coordinator.console.api.request_values import bad_request, path_values, query_value
from coordinator.console.api.responses import (
    BASE,
    HEADERS,
    JSON,
    is_api,
    problem_response,
    text_response,
    value_response,
    wants_text,
)
from coordinator.console.api.route import ApiRoute, Call, StreamRoute
from coordinator.console.api.routes import ALL_ROUTES, ALL_STREAMS
from coordinator.console.control_access import Caller, ControlAccess
from coordinator.console.hosts import parse_host
from coordinator.control.control import Control
from coordinator.control.namespaces.namespaces import DEFAULT
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.lines_per_address import LinesPerAddress
from coordinator.net.peer import peer_address, printable

_LOG: Final = logging.getLogger("Control")

OPENAPI_PATH: Final = f"{BASE}/openapi.json"
_READS: Final = ("GET", "HEAD")
_REFUSED: Final = (ProblemKind.BAD_TOKEN, ProblemKind.FOREIGN_HOST, ProblemKind.CONTROL_OFF)
"""What a log should tell of: somebody tries what he may not."""
_MAX_ACTOR: Final = 100
_IN_NAMESPACE: Final = "in_namespace"
_NAME: Final = re.compile(r"{(\w+)}")


class ApiService:
    """Made in a running event loop. `add_to` an application's router, with `guard` among its middlewares."""

    def __init__(
        self,
        control: Control,
        access: ControlAccess,
        lines: LinesPerAddress,
        request_timeout_s: float = 20.0,
        receiving: Receiving = lambda _: nullcontext(),
        lasting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """In: who may do what; who says whether a peer that misbehaves is told of; how long a body may take to
        come; what is entered while it comes, and while an answer is made that may be long in coming."""
        self._control = control
        self._access = access
        self._lines = lines
        self._lasting = lasting
        self._bodies = Bodies(request_timeout_s, receiving)
        self._piecewise = Piecewise()
        self._openapi = msgspec.json.encode(openapi(ALL_ROUTES, ALL_STREAMS))

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Adds all routes, and those about one broker for each namespace as well."""
        for route in ALL_ROUTES:
            handler = self._handler(route)
            for pattern in _patterns(route.path, is_of_process=route.is_of_process):
                router.add_route(route.method, pattern, handler)
                if route.method == "GET":
                    router.add_route("HEAD", pattern, handler)
        for stream in ALL_STREAMS:
            for pattern in _patterns(stream.path, is_of_process=False):
                router.add_get(pattern, self._stream_handler(stream))
        router.add_get(OPENAPI_PATH, self._answer_openapi)

    def _control_of(self, request: web.Request) -> Control:
        """The control room about the broker that is asked. Raises Problem (no-such-namespace)."""
        name = request.match_info.get(_IN_NAMESPACE, DEFAULT)
        return self._control.namespaces.control_of(name) or self._control

    def _call(self, request: web.Request, query: type[Struct] | None, body: object) -> Call:
        actor = request.headers.get("X-Groupd-Actor", "").strip()
        named = path_values(request.match_info)
        named.pop(_IN_NAMESPACE, None)
        return Call(
            path=named,
            query=query_value(query, request.query.items()),
            body=body,
            actor=printable(actor, _MAX_ACTOR) or None,
            accept=request.headers.get("Accept", ""),
            last_event_id=request.headers.get("Last-Event-ID"),
            why_off=self._access.why_off(),
            needs_token=self._access.token is not None,
            host=parse_host(request.headers.get("Host", "")) or "localhost",
        )

    def close(self) -> None:
        """Ends the answers that come in pieces."""
        self._piecewise.close()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Below /v1 nothing but JSON is answered, whatever goes wrong."""
        if not is_api(request.path):
            return await handler(request)
        try:
            self._check_sender(request)
            return await handler(request)
        except Problem as problem:
            self._tell(request, problem)
            answer = problem_response(problem)
        except web.HTTPException as error:
            answer = problem_response(_as_problem(request, error))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one call that fails is not the daemon
            _LOG.error("%s %s failed", request.method, printable(request.path), exc_info=error)
            detail = "Something is wrong with groupd here; its log says what."
            answer = problem_response(Problem(ProblemKind.INTERNAL, "The call failed", detail))
        if not is_read(request):
            answer.force_close()
        return answer

    def _check_sender(self, request: web.Request) -> None:
        """Raises Problem."""
        caller = _caller(request)
        self._access.check_reading(caller)
        if request.method not in _READS:
            self._access.check_sender(caller)
        if self._access.guards_reading:
            self._access.check_permission(caller)

    def _tell(self, request: web.Request, problem: Problem) -> None:
        peername = request.transport and request.transport.get_extra_info("peername")
        if problem.kind in _REFUSED and self._lines.is_to_be_told("/" + peer_address(peername)):
            _LOG.warning(
                "Refused %s %s from %s: %s",
                *(request.method, printable(request.path), peer_address(peername), problem.title),
            )

    def _handler(self, route: ApiRoute) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            if route.changes:
                self._access.check_permission(_caller(request))
            if route.needs_enable and not self._control.may_harm:
                detail = "This harms the process, so that control.enable has to be true (or open) in so many words."
                raise Problem(ProblemKind.CONTROL_OFF, "This harms the process", detail)
            body = await self._bodies.value(route.body, request)
            call = self._call(request, route.query, body)
            control = self._control_of(request)
            with self._lasting() if route.lasts else nullcontext():
                handled = route.handle(control, call)
                value = await (_finished(handled) if route.changes else handled)
            if route.text is not None and wants_text(request.headers.get("Accept", "")):
                return text_response(route.text(value))
            return value_response(value)

        return answer

    def _stream_handler(self, route: StreamRoute) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            await self._bodies.value(None, request)
            pieces = await route.open(self._control_of(request), self._call(request, route.query, None))
            with self._lasting():
                async with aclosing(pieces):
                    return await self._piecewise.send(request, route, pieces)

        return answer

    async def _answer_openapi(self, request: web.Request) -> web.StreamResponse:
        await self._bodies.value(None, request)
        return web.Response(body=self._openapi, content_type=JSON, headers=HEADERS)


def _patterns(path: str, *, is_of_process: bool) -> Iterator[str]:
    """What aiohttp is told of a path: by itself it takes no name that has a brace."""
    pattern = _NAME.sub(r"{\1:[^/]+}", path)
    yield BASE + pattern
    if not is_of_process:
        yield f"{BASE}/namespaces/{{{_IN_NAMESPACE}:[^/]+}}{pattern}"


async def _finished(change: Awaitable[Any]) -> Any:
    """A change that was begun comes to its end, whether or not whoever asked for it stays."""
    task = asyncio.ensure_future(change)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def _caller(request: web.Request) -> Caller:
    headers = request.headers
    own = request.transport and request.transport.get_extra_info("sockname")
    return Caller(headers.get("Host"), headers.get("Origin"), headers.get("Authorization"), peer_address(own))


def _as_problem(request: web.Request, error: web.HTTPException) -> Problem:
    """What aiohttp has to say."""
    path = printable(request.path)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = sorted(error.allowed_methods)
        detail = f"{path} is not there for {printable(request.method)}, but for {', '.join(allowed)}."
        return Problem(ProblemKind.NO_SUCH_METHOD, "The method is not allowed", detail, {"allowed": allowed})
    if isinstance(error, web.HTTPNotFound):
        detail = f"There is no {path}. {BASE} names what there is, {OPENAPI_PATH} all of it."
        return Problem(ProblemKind.NO_SUCH_PATH, "There is no such path", detail)
    return bad_request("", "The request is wrong", f"{printable(error.reason)}.")
