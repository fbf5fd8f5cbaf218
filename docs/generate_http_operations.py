"""Generate docs/http-operations.md, the operations of the HTTP API, from their declarations.

python -m docs.generate_http_operations
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coordinator.control.problem import ProblemKind
from coordinator.http.api.api_messages import BASE_PATH
from coordinator.http.api.api_route import ApiRoute, StreamRoute
from coordinator.http.api.openapi import COMMON_PROBLEMS, create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS

PAGE: Final = Path(__file__).with_name("http-operations.md")
_INTRODUCTION: Final = f"""# Operations of the HTTP API

This page lists every operation with its parameters, response, problems and command. It is generated from the
declarations in `coordinator/http/api/*_routes.py` by `python -m docs.generate_http_operations`; a test fails if
it is stale. `{BASE_PATH}/openapi.json` has the types of all fields. [http.md](http.md) explains permissions and
errors, and [control.md](control.md) explains the operations.

- Paths are below `{BASE_PATH}`. Operations also exist for each namespace, below `{BASE_PATH}/namespaces/NAME`,
  unless they are marked *daemon*.
- `?` marks query parameters. The other parameters are fields of the JSON body. Required ones are bold.
- *change* marks operations that need the [permission](http.md#who-may-change-what).
- Every operation can answer {", ".join(f"`{kind.word}`" for kind in COMMON_PROBLEMS)}.
- A change can also answer `{ProblemKind.CONTROL_OFF.word}` and `{ProblemKind.BAD_TOKEN.word}`. With an
  authorizer, so can a read: it may need the [token](http.md#who-may-change-what) as well.
"""
_HEAD: Final = """
| operation | meaning | parameters | response | problems | command |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    document = create_openapi(ALL_ROUTES, ALL_STREAMS)
    by_tag: dict[str, list[str]] = {}
    routes: list[ApiRoute | StreamRoute] = [*ALL_ROUTES, *ALL_STREAMS]
    for route in sorted(routes, key=lambda one: one.path):
        method = "GET" if isinstance(route, StreamRoute) else route.method
        operation = document["paths"][BASE_PATH + route.path][method.lower()]
        row = _format_row(method, route, operation, document["components"]["schemas"])
        by_tag.setdefault(operation["tags"][0], []).append(row)
    tables = [f"\n## {tag}\n{_HEAD}{''.join(rows)}" for tag, rows in sorted(by_tag.items())]
    return _INTRODUCTION + "".join(tables)


def _format_row(
    method: str,
    route: ApiRoute | StreamRoute,
    operation: Mapping[str, Any],
    schemas: Mapping[str, Any],
) -> str:
    marks = ""
    if isinstance(route, ApiRoute):
        marks = (" *daemon*" if route.is_process_wide else "") + (" *change*" if route.changes else "")
    problems = ", ".join(f"`{kind.word}`" for kind in dict.fromkeys(route.problems))
    command = f"`groupd {route.command}`" if route.command else ""
    cells = [
        f"`{method} {route.path or '/'}`{marks}",
        route.summary.removesuffix("."),
        ", ".join(_list_parameters(operation, schemas)),
        _format_response(operation["responses"]),
        problems,
        command,
    ]
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |")


def _list_parameters(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            yield _format_parameter(f"?{parameter['name']}", is_required=parameter["required"])
    for media in operation.get("requestBody", {}).get("content", {}).values():
        schema = schemas.get(media["schema"].get("$ref", "").rpartition("/")[2], media["schema"])
        if "properties" not in schema:
            yield "any names with texts"
        for name in schema.get("properties", ()):
            yield _format_parameter(name, is_required=name in schema.get("required", ()))


def _format_parameter(name: str, *, is_required: bool) -> str:
    return f"**`{name}`**" if is_required else f"`{name}`"


def _format_response(responses: Mapping[str, Any]) -> str:
    if "204" in responses:
        return "204"
    content = responses["200"]["content"]
    names = [media["schema"].get("$ref", "").rpartition("/")[2] for media in content.values()]
    shown = [f"`{name}`" for name in filter(None, names)] or [f"`{kind}`" for kind in content]
    return " or ".join([*shown, *(["text"] if len(content) > 1 else [])])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
