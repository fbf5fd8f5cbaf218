"""The OpenAPI 3.1 document of the API, made of its routes and of the classes of what they take and give."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from coordinator import __version__
from coordinator.console.api.responses import BASE, JSON, PROBLEM, ProblemDocument
from coordinator.console.api.route import ApiRoute, StreamRoute
from coordinator.control.problem import ProblemKind

_REF: Final = "#/components/schemas/{name}"
_NAME: Final = re.compile(r"{(\w+)}")
_EVERYWHERE: Final = (
    *(ProblemKind.BAD_REQUEST, ProblemKind.FOREIGN_HOST, ProblemKind.INTERNAL),
    *(ProblemKind.NOT_JSON, ProblemKind.TOO_LARGE, ProblemKind.TOO_MANY),
)
"""A route without parameters reads a body as well: it accepts an empty one."""
_OF_CHANGES: Final = (ProblemKind.CONTROL_OFF, ProblemKind.BAD_TOKEN)
_ACTOR: Final = {
    "name": "X-Groupd-Actor",
    "in": "header",
    "required": False,
    "description": "Who asks, in their own words: for the log and the ledger.",
    "schema": {"type": "string"},
}
_LAST_EVENT: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was seen: what came after it is sent first.",
    "schema": {"type": "string"},
}

Json = dict[str, Any]


def openapi(routes: Sequence[ApiRoute], streams: Sequence[StreamRoute]) -> Json:
    """The document, as JSON values."""
    every: list[ApiRoute | StreamRoute] = [*routes, *streams]
    queries = [route.query for route in every if route.query is not None]
    bodies = [route.body for route in routes if route.body is not None]
    answers = [route.answer for route in routes if route.answer is not None]
    types = list(dict.fromkeys([*queries, *bodies, *answers, ProblemDocument]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))

    def resolved(query: type[Any] | None) -> Json:
        return {} if query is None else components[schema_of[query]["$ref"].rpartition("/")[2]]

    paths: dict[str, Json] = {}
    for route in routes:
        operation = _operation(route, resolved(route.query), schema_of)
        paths.setdefault(BASE + route.path, {})[route.method.lower()] = operation
    for stream in streams:
        paths.setdefault(BASE + stream.path, {})["get"] = _stream_operation(
            stream, resolved(stream.query), schema_of
        )
    used = {schema_of[query]["$ref"].rpartition("/")[2] for query in queries}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupd",
            "version": __version__,
            "description": "Ask a Kafka group coordinator why, when, and what if. What is not about namespaces is "
            f"also there for each of them, below {BASE}/namespaces/{{namespace}} instead of {BASE}.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in used},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: ApiRoute, query: Json, schema_of: dict[Any, Any]) -> Json:
    problems = [*_EVERYWHERE, *route.problems]
    content: Json = {JSON: {"schema": schema_of.get(route.answer)}}
    if route.text is not None:
        content["text/plain"] = {"schema": {"type": "string"}}
    operation: Json = {
        "operationId": _operation_id(route.method, route.path),
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "parameters": [*_path_parameters(route.path), *_query_parameters(query)],
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": False,
            "content": {JSON: {"schema": schema_of[route.body]}},
        }
    if route.changes:
        problems += _OF_CHANGES
        operation["parameters"].append(_ACTOR)
        operation["security"] = [{}, {"token": []}]
    success: Json = {"204": {"description": "Done."}}
    if route.answer is not None:
        success = {"200": {"description": route.summary, "content": content}}
    operation["responses"] = success | _problems(problems, schema_of)
    return operation


def _stream_operation(route: StreamRoute, query: Json, schema_of: dict[Any, Any]) -> Json:
    content = {route.content_type: {"schema": {"type": "string"}}}
    parameters = [*_path_parameters(route.path), *_query_parameters(query)]
    if route.is_endless:
        parameters.append(_LAST_EVENT)
    return {
        "operationId": _operation_id("GET", route.path),
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "parameters": parameters,
        "responses": {"200": {"description": route.summary, "content": content}}
        | _problems([*_EVERYWHERE, *route.problems], schema_of),
    }


def _problems(kinds: Iterable[ProblemKind], schema_of: dict[Any, Any]) -> Json:
    """One response for each status, which names its problems."""
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(kind.status, []).append(kind.word)
    content = {PROBLEM: {"schema": schema_of[ProblemDocument]}}
    return {
        str(status): {"description": ", ".join(words), "content": content}
        for status, words in sorted(by_status.items())
    }


def _path_parameters(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _NAME.findall(path)
    ]


def _query_parameters(schema: Json) -> list[Json]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": of}
        for name, of in schema.get("properties", {}).items()
    ]


def _tag(path: str) -> str:
    return path.split("/")[1] if path else "index"


def _operation_id(method: str, path: str) -> str:
    words = re.findall(r"\w+", path)
    return "_".join([method.lower(), *words])
