"""What the HTTP port answers."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from coordinator.console.index_page import as_html, as_text
from coordinator.console.metrics import BrokerCollector
from coordinator.server.broker import Broker

PATHS: Final = {
    "/health": "whether the process runs",
    "/ready": "whether every group is loaded",
    "/metrics": "counts and times, for Prometheus",
}
"""What there is besides the index page, in a few words."""

_INDEX_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
}


def make_application(broker: Broker) -> web.Application:
    """The routes: / (what is here), /health (the process lives), /ready (every group is loaded), /metrics
    (Prometheus)."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker))
    ProcessCollector(registry=registry)

    async def index(request: web.Request) -> web.Response:
        # Browsers name HTML; curl and its like take anything.
        is_html = "text/html" in request.headers.get("Accept", "").lower()
        return web.Response(
            text=(as_html if is_html else as_text)(broker.overview(), PATHS),
            content_type="text/html" if is_html else "text/plain",
            headers=_INDEX_HEADERS,
        )

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        now = broker.standing
        if now != "ready":
            return web.Response(status=503, text=f"{now}\n")
        failed = [f"{name} could not be read: its groups are out of service\n" for name in broker.failed()]
        offline = broker.offline()
        if offline is not None:
            failed.append(f"{offline}\n")
        return web.Response(text="".join(["ready\n", *failed]))

    async def metrics(request: web.Request) -> web.Response:
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application(middlewares=[_name_paths])
    application.router.add_get("/", index)
    application.router.add_get("/health", health)
    application.router.add_get("/ready", ready)
    application.router.add_get("/metrics", metrics)
    return application


@web.middleware
async def _name_paths(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Whoever asks for a path that is none is told those that there are."""
    if isinstance(request.match_info.http_exception, web.HTTPNotFound):
        return web.Response(status=404, text=f"There is nothing here, but at {', '.join(['/', *PATHS])}\n")
    return await handler(request)
