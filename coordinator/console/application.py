"""What the HTTP port answers."""

from collections.abc import Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.console.api.responses import is_api
from coordinator.console.api.service import ApiService
from coordinator.console.index_page import MAX_TEXT, as_text
from coordinator.console.metrics_page import CONTENT_TYPE, EVERY_GROUP, MetricsPage
from coordinator.console.page import INDEX, page_response
from coordinator.control.control import Control
from coordinator.control.faults.patterns import wrong
from coordinator.control.problem import Problem
from coordinator.control.shared import Shared
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.net.peer import printable
from coordinator.server.broker import Broker
from coordinator.server.overview import Overview

PATHS: Final = {
    "/v1": "groups: asked about and changed, with curl or a program",
    "/health": "whether the process runs",
    "/ready": "whether every group is loaded, and the disk takes commits",
    "/metrics": "counts and times, for Prometheus",
    "/metrics/groups": "the same of each group, and its lag; of some with ?match=billing*",
}
"""What there is besides the index page, in a few words."""

_HELD: Final = {CONSUMER_OFFSETS: "groups", TRANSACTION_STATE: "transactional producers"}
"""What the partitions of internal topics hold."""
_METRICS_HEADERS: Final = {"Content-Type": CONTENT_TYPE}
_INDEX_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
}


def make_application(
    broker: Broker,
    api: ApiService | None = None,
    before: Iterable[Middleware] = (),
    control: Control | None = None,
) -> web.Application:
    """The routes: / (what is here), /health (the process lives), /ready (every group is loaded, and the disk takes
    commits), /metrics and /metrics/groups (Prometheus), and those of the API. In: who sees every request first, in
    order; who knows of rebalances, clocks and faults."""

    async def overview() -> Overview:
        return broker.overview()

    here = Shared(overview)

    async def index(request: web.Request) -> web.Response:
        # Browsers name HTML; curl and its like take anything.
        if "text/html" in request.headers.get("Accept", "").lower():
            answer = page_response(request, INDEX)
            answer.headers["Vary"] = "Accept"
            return answer
        return web.Response(text=as_text(await here.get(), PATHS), headers=_INDEX_HEADERS)

    async def static(request: web.Request) -> web.Response:
        return page_response(request, request.match_info["name"])

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        now = broker.standing
        if now != "ready":
            return web.Response(status=503, text=f"{now}\n")
        refusal = broker.disk_refusal()
        if refusal is not None:
            # Whoever sends clients here should not: they could read their offsets and commit none.
            return web.Response(
                status=503, text=f"the disk refuses commits: {printable(refusal, MAX_TEXT)}\n"
            )
        failed = [
            f"{name} could not be read: its {_HELD[name.topic]} are out of service\n"
            for name in broker.failed()
        ]
        offline = broker.offline()
        if offline is not None:
            failed.append(f"{offline}\n")
        return web.Response(text="".join(["ready\n", *failed]))

    guards = [] if api is None else [api.guard]
    application = web.Application(middlewares=[*before, *guards, _refuse_bodies, _name_paths])
    application.router.add_get("/", index)
    application.router.add_get("/static/{name:.+}", static)
    application.router.add_get("/health", health)
    application.router.add_get("/ready", ready)
    _add_metrics(application.router, MetricsPage(broker, control))
    if api is not None:
        api.add_to(application.router)
    return application


def _add_metrics(router: web.UrlDispatcher, page: MetricsPage) -> None:
    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=await page.text(), headers=_METRICS_HEADERS)

    async def group_metrics(request: web.Request) -> web.Response:
        unknown = next((name for name in request.query if name != "match"), None)
        try:
            if unknown is not None:
                raise wrong(unknown, "there is no such parameter, but match")
            text = await page.groups_text(
                request.query.getall("match", [EVERY_GROUP]), request.headers.get("Accept", "")
            )
        except Problem as problem:
            return web.Response(status=400, text=f"{printable(problem.detail, MAX_TEXT)}\n")
        return web.Response(body=text, headers=_METRICS_HEADERS)

    router.add_get("/metrics", metrics)
    router.add_get("/metrics/groups", group_metrics)


@web.middleware
async def _refuse_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Nothing here takes a body, so that none is read; the API says by itself what takes one."""
    if not request.body_exists or is_api(request.path):
        return await handler(request)
    answer = web.Response(status=413, text="Nothing here takes a body\n")
    answer.force_close()
    return answer


@web.middleware
async def _name_paths(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whoever asks for a path that is none is told those that there are."""
    if isinstance(request.match_info.http_exception, web.HTTPNotFound) and not is_api(request.path):
        return web.Response(status=404, text=f"There is nothing here, but at {', '.join(['/', *PATHS])}\n")
    return await handler(request)
