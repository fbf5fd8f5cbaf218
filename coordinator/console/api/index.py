"""What there is below /v1: for whoever does not know yet."""

from collections.abc import Sequence

from msgspec import Struct

from coordinator.console.api.responses import BASE
from coordinator.console.api.route import ApiRoute, Call, StreamRoute
from coordinator.control.control import Control


class Operation(Struct, frozen=True, kw_only=True):
    """One thing that can be asked for. `changes`: whether it needs control to be on."""

    method: str
    path: str
    summary: str
    changes: bool


class Index(Struct, frozen=True, kw_only=True):
    """Everything that can be asked for; `openapi` has the same for programs, with all fields."""

    openapi: str
    operations: list[Operation]


def route_of(routes: Sequence[ApiRoute], streams: Sequence[StreamRoute]) -> ApiRoute:
    """The route of the index itself, which names these."""
    operations = [
        Operation(method=route.method, path=BASE + route.path, summary=route.summary, changes=route.changes)
        for route in routes
    ]
    operations += [
        Operation(method="GET", path=BASE + stream.path, summary=stream.summary, changes=False)
        for stream in streams
    ]
    operations.sort(key=lambda operation: operation.path)
    value = Index(openapi=f"{BASE}/openapi.json", operations=operations)

    async def index(control: Control, call: Call) -> Index:
        return value

    return ApiRoute(
        method="GET",
        path="",
        summary="What there is",
        handle=index,
        answer=Index,
        text=_as_text,
        is_of_process=True,
    )


def _as_text(index: Index) -> str:
    lines = [f"{one.method:<6} {one.path}  {one.summary.removesuffix('.')}" for one in index.operations]
    return "\n".join(
        [
            *lines,
            "",
            f"What is not about namespaces is also there for each of them: {BASE}/namespaces/NAME/groups.",
            f"{index.openapi} has all fields. `Accept: application/json` gives JSON.",
        ]
    )
