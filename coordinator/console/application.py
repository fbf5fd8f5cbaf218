"""What the HTTP port answers."""

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from coordinator.console.metrics import ServerCollector
from coordinator.server.server import Server


def make_application(server: Server) -> web.Application:
    """The routes: /health (the process lives), /ready (every group is loaded), /metrics (Prometheus)."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(server))
    ProcessCollector(registry=registry)

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        if server.ready.is_set() and not server.is_closing:
            failed = [
                f"{name} could not be read: its groups are out of service\n"
                for name in server.runtime.failed()
            ]
            return web.Response(text="".join(["ready\n", *failed]))
        return web.Response(status=503, text="closing\n" if server.is_closing else "loading\n")

    async def metrics(request: web.Request) -> web.Response:
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/health", health)
    application.router.add_get("/ready", ready)
    application.router.add_get("/metrics", metrics)
    return application
