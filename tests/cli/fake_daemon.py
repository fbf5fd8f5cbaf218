"""An HTTP server that answers like the API of a daemon, with responses of the test, and keeps the requests."""

import asyncio
import json
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web
from click.testing import CliRunner, Result

from coordinator.cli.main import groupd
from coordinator.control.problem import Problem
from coordinator.http.api.api_messages import BASE_PATH, NoParameters, decode_body, decode_query
from coordinator.http.api.api_route import ApiRoute, StreamRoute
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from tests.cli.test_serve import TIMEOUT_S

PROBLEM = "application/problem+json"
END = None
"""In a stream: the connection is closed."""


@dataclass(frozen=True)
class ReceivedRequest:
    """One request. `path` is as it was sent, without the query."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


def find_route(method: str, path: str) -> ApiRoute | StreamRoute | None:
    """Return the operation of the API with a method and a path, as for the daemon's own broker."""
    steps = [unquote(step) for step in path.removeprefix(BASE_PATH).split("/")]
    routes: list[ApiRoute | StreamRoute] = [*ALL_ROUTES, *ALL_STREAMS]
    for route in routes:
        own = "GET" if isinstance(route, StreamRoute) else route.method
        places = ["" if place.startswith("{") else place for place in route.path.split("/")]
        if (own, len(places)) == (method, len(steps)) and all(
            place in ("", step) for place, step in zip(places, steps, strict=True)
        ):
            return route
    prefix = f"{BASE_PATH}/namespaces/"
    _, is_of_namespace, below = path.removeprefix(prefix).partition("/")
    if path.startswith(prefix) and is_of_namespace:
        return find_route(method, f"{BASE_PATH}/{below}")
    return None


def find_mistakes(request: ReceivedRequest) -> Iterator[str]:
    """Yield the reason why a daemon would refuse a request by its operation, its query or its body."""
    route = find_route(request.method, request.path)
    if route is None:
        yield f"{request.line} is not an operation"
        return
    pairs = [(name, text) for name, texts in request.query.items() for text in texts]
    try:
        decode_query(route.query, pairs)
        if isinstance(route, ApiRoute):
            decode_body(NoParameters if route.body is None else route.body, json.dumps(request.body).encode())
    except Problem as problem:
        yield f"{request.line}: {problem.detail}"


@dataclass
class FakeDaemon:
    """`values` are JSON answers and `texts` those for people, by method and path; `problems` go before both. What a
    stream sends is put into `pieces`, `END` ends one."""

    values: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    problems: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[ReceivedRequest] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    """Requests that the API does not have, or with a body that it refuses."""
    pieces: "queue.Queue[bytes | None]" = field(default_factory=queue.Queue)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        query = {name: request.query.getall(name) for name in request.query}
        path = request.rel_url.raw_path
        asked = ReceivedRequest(
            request.method, path, query, dict(request.headers), json.loads(body) if body else None
        )
        self.asked.append(asked)
        self.mistakes += find_mistakes(asked)
        if asked.line in self.problems:
            problem = self.problems[asked.line]
            return web.Response(status=problem["status"], text=json.dumps(problem), content_type=PROBLEM)
        if path == "/v1/stream":
            return await self._stream(request)
        if asked.line in self.texts and "text/plain" in request.headers["Accept"]:
            return web.Response(text=self.texts[asked.line])
        if asked.line not in self.values:
            problem = {
                "type": "urn:groupd:no-such-path",
                "status": 404,
                "title": "no",
                "detail": f"no {path}.",
            }
            return web.Response(status=404, text=json.dumps(problem), content_type=PROBLEM)
        if self.values[asked.line] is None:
            return web.Response(status=204)
        return web.json_response(self.values[asked.line])

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while (piece := await asyncio.to_thread(self.pieces.get)) is not END:
            await response.write(piece)
        return response

    def send(self, seq: int, kind: str, **fields: object) -> None:
        """An event, on a stream that is open or the next one."""
        value = {"seq": seq, "kind": kind, "group_id": "billing", "generation_id": 1, "at_ms": 0, "line": ""}
        data = json.dumps(value | fields)
        self.pieces.put(f"id: 5f3a.{seq}\nevent: {kind}\ndata: {data}\n\n".encode())

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def last(self) -> ReceivedRequest:
        return self.asked[-1]

    @contextmanager
    def running(self, port: int = 0) -> Iterator[Self]:
        """Serves on a port of 127.0.0.1, in a thread."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        async def start() -> web.AppRunner:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self.answer)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            return runner

        runner = asyncio.run_coroutine_threadsafe(start(), loop).result(TIMEOUT_S)
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.pieces.put(END)
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(TIMEOUT_S)
            asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            loop.close()
        assert not self.mistakes

    def run(self, *arguments: str, **environment: str) -> Result:
        """Run `groupd …` in this process. The command sends its requests to this daemon and reads no terminal."""
        variables = {"GROUPD_URL": self.url, "GROUPD_TOKEN": None, "GROUPD_ACTOR": None} | environment
        return CliRunner().invoke(groupd, arguments, prog_name="groupd", env=variables)
