"""The API of a server in this process, over a real port.

async with serving_api() as api:
    answer = await api.call("GET", "/v1/groups")
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import ClientSession, ClientTimeout
from msgspec.structs import replace

from coordinator.broker.server import Server
from coordinator.broker.server_view import ServerView
from coordinator.config.listeners import Address
from coordinator.control.daemon_control_plane import DaemonControlPlane
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.http.http_access import ControlAccess, HttpLimits, create_control_access
from coordinator.http.http_server import HttpServer
from coordinator.network.listening_socket import HTTP_OPTION, bind_sockets
from storage.files import Files
from tests.broker.harness import settings, start

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
TIMEOUT_S: Final = 60


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """Return its JSON."""
        assert self.content_type in (JSON, PROBLEM), self
        return msgspec.json.decode(self.body)

    @property
    def problem(self) -> str:
        """The word of a problem, which has to be a whole one."""
        assert self.content_type == PROBLEM, self
        assert {"type", "title", "status", "detail"} <= self.value.keys()
        assert self.value["status"] == self.status
        assert str(self.value["detail"]).isprintable()
        word: str = self.value["type"].removeprefix("urn:groupd:")
        return word


@dataclass(frozen=True)
class Api:
    """A server with its API port, and requests to it."""

    server: Server
    control: DaemonControlPlane
    port: int
    session: ClientSession
    access: ControlAccess
    host: str = "127.0.0.1"

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request with a body as a value (`body`) or as bytes (`data`)."""
        said = dict(headers or {})
        if body is not None:
            data = msgspec.json.encode(body)
            said.setdefault("Content-Type", JSON)
        skipped = () if data is not None else ("Content-Type",)
        url = f"http://{Address(self.host, self.port)}{path}"
        async with self.session.request(
            method, url, data=data, headers=said, skip_auto_headers=skipped
        ) as answer:
            return Answer(answer.status, answer.content_type, answer.headers, await answer.read())


@asynccontextmanager
async def serving_api(
    directory: Path | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    host: str = "127.0.0.1",
    wait: bool = True,
    files: Files | None = None,
    brokers: int = 1,
) -> AsyncIterator[Api]:
    """Yield the API of a server with the topic `orders` of 3 partitions. `host` is the address of the HTTP port;
    `wait` waits until all groups are loaded.
    """
    # The test records are old: with a retention time, a delayed test would find them deleted.
    texts = {"http.listener": str(Address(host, 0)), "log.retention.ms": "-1", **(properties or {})}
    how = settings(directory, texts, topics=[("orders", 3)], files=files)
    server = await start(replace(how, brokers=brokers), wait=wait)
    late = LazyControlPlane(server)
    control = late.get_or_create()
    config = server.settings.config
    sockets = bind_sockets(Address(host, 0), 128, HTTP_OPTION)
    access = create_control_access(config, host, sockets, server.settings.files)
    http = HttpServer(ServerView(server), late, sockets, access, config.view(HttpLimits))
    http.start()
    try:
        async with ClientSession(timeout=ClientTimeout(TIMEOUT_S)) as session:
            reached = "::1" if ":" in host else "127.0.0.1"
            yield Api(server, control, sockets[0].getsockname()[1], session, access, reached)
    finally:
        http.close()
        control.close()
        await control.namespaces.close()
        await server.close()
