"""The table of all routes and streams of the API, and the index at /v1 that lists them. The OpenAPI document has
the same source."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.core.wire_name import wire_name
from coordinator.http.api import (
    board_routes,
    clock_routes,
    cluster_routes,
    diagnosis_routes,
    event_stream_routes,
    fault_routes,
    group_routes,
    ledger_routes,
    metrics_routes,
    namespace_routes,
    recording_routes,
    stand_in_routes,
    topic_routes,
)
from coordinator.http.api.api_messages import BASE_PATH
from coordinator.http.api.api_route import ApiCall, ApiRoute, StreamRoute


@wire_name("Operation")
class ApiOperation(Struct, frozen=True, kw_only=True):
    """An operation. `changes`: it requires permission for changes."""

    method: str
    path: str
    summary: str
    changes: bool


@wire_name("Index")
class Index(Struct, frozen=True, kw_only=True):
    """All operations. `openapi` is the path of the OpenAPI document, which describes them with all fields."""

    openapi: str
    operations: list[ApiOperation]


def create_index_route(routes: Sequence[ApiRoute], streams: Sequence[StreamRoute]) -> ApiRoute:
    """Return the route of the index, which lists the given routes and streams."""
    operations = [
        ApiOperation(
            method=route.method, path=BASE_PATH + route.path, summary=route.summary, changes=route.changes
        )
        for route in routes
    ]
    operations += [
        ApiOperation(method="GET", path=BASE_PATH + stream.path, summary=stream.summary, changes=False)
        for stream in streams
    ]
    operations.sort(key=lambda operation: operation.path)
    value = Index(openapi=f"{BASE_PATH}/openapi.json", operations=operations)

    async def index(control: ControlPlane, call: ApiCall) -> Index:
        return value

    return ApiRoute(
        method="GET",
        path="",
        summary="List the operations",
        handle=index,
        answer=Index,
        text=_format_index,
        is_process_wide=True,
    )


def _format_index(index: Index) -> str:
    lines = [f"{one.method:<6} {one.path}  {one.summary.removesuffix('.')}" for one in index.operations]
    return "\n".join(
        [
            *lines,
            "",
            f"Operations without namespaces also exist for each namespace: {BASE_PATH}/namespaces/NAME/groups.",
            f"{index.openapi} describes all fields. Send `Accept: application/json` for JSON.",
        ]
    )


ALL_STREAMS: Final[tuple[StreamRoute, ...]] = (
    *event_stream_routes.STREAMS,
    *ledger_routes.STREAMS,
    *metrics_routes.STREAMS,
    *recording_routes.STREAMS,
)
_RESOURCE_ROUTES: Final[tuple[ApiRoute, ...]] = (
    *board_routes.ROUTES,
    *clock_routes.ROUTES,
    *cluster_routes.CLUSTER_ROUTES,
    *cluster_routes.FAILOVER_ROUTES,
    *fault_routes.ROUTES,
    *group_routes.GROUP_ROUTES,
    *ledger_routes.ROUTES,
    *namespace_routes.ROUTES,
    *group_routes.OFFSET_ROUTES,
    *recording_routes.ROUTES,
    *stand_in_routes.ROUTES,
    *topic_routes.ROUTES,
    *diagnosis_routes.VIOLATION_ROUTES,
    *diagnosis_routes.WAIT_ROUTES,
)
ALL_ROUTES: Final[tuple[ApiRoute, ...]] = (
    create_index_route(_RESOURCE_ROUTES, ALL_STREAMS),
    *_RESOURCE_ROUTES,
)
