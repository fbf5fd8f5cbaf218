"""An identity provider in this process, which publishes its keys well or badly, and its tokens."""

import asyncio
import json
import time
from typing import Any, Final, Self

from aiohttp import web

from coordinator.broker.server import Server
from coordinator.config.security_properties import OAUTH_VALIDATORS
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from tests.broker.harness import Client
from tests.security.core.tokens import RSA, client_first, jwks, signed
from tests.security.server.sasl_server import choose, show

ENDPOINT: Final = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED: Final = {"sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN"}
_SECURED: Final = {
    **UNSECURED,
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": OAUTH_VALIDATORS[0],
    "sasl.oauthbearer.expected.audience": "groupd",
    "sasl.oauthbearer.expected.issuer": "https://id.example",
}


class Provider:
    """Publishes `document`, with `status` and `headers`, once `is_open`."""

    def __init__(self) -> None:
        self.document = json.dumps(jwks(RSA)).encode()
        self.status = 200
        self.headers: dict[str, str] = {}
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.asked = 0
        self.was_asked = asyncio.Condition()

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/{name:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open.set()
        await self._runner.cleanup()

    async def serve(self) -> None:
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[-1][1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    async def until_asked(self, times: int) -> None:
        async with self.was_asked:
            await asyncio.wait_for(self.was_asked.wait_for(lambda: self.asked >= times), 60)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        async with self.was_asked:
            self.asked += 1
            self.was_asked.notify_all()
        await self.is_open.wait()
        return web.Response(body=self.document, status=self.status, headers=self.headers)


def secured(url: str, **more: str) -> dict[str, str]:
    """Return the properties of a listener with signed tokens; `more` are properties with `_` for `.`."""
    return {**_SECURED, ENDPOINT: url, **{name.replace("_", "."): value for name, value in more.items()}}


def claims(sub: str = "alice", life_s: float = 3600, **more: Any) -> dict[str, Any]:
    """Those of a token that is good now."""
    now_s = int(time.time())
    return {
        "sub": sub,
        "iat": now_s - 100,
        "exp": now_s + life_s,
        "aud": ["groupd"],
        "iss": "https://id.example",
        **more,
    }


def good_token(sub: str = "alice", life_s: float = 3600) -> str:
    return signed(RSA, claims(sub, life_s))


async def log_in(client: Client, token: str, version: int = 2) -> SaslAuthenticateResponse:
    """Shows a token; the answer to it."""
    assert (await choose(client, "OAUTHBEARER")).error_code == 0
    return await show(client, client_first(token), version)


async def is_let_in(server: Server, token: str) -> bool:
    """Whether a client with this token is."""
    async with Client(server) as client:
        answer = await log_in(client, token)
        assert answer.error_code == 0
        assert answer.auth_bytes in (b"", b'{"status":"invalid_token"}')
        return answer.auth_bytes == b""
