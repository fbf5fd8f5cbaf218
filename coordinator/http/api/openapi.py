"""The OpenAPI 3.1 document of the API, generated from its routes and from the classes of requests and responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from coordinator import __version__
from coordinator.control.problem import ProblemKind
from coordinator.core.wire_name import get_wire_name
from coordinator.http.api.api_messages import BASE_PATH, JSON_TYPE, PROBLEM_TYPE, ProblemDocument
from coordinator.http.api.api_route import ApiRoute, StreamRoute

_REF: Final = "#/components/schemas/{name}"
_PATH_NAME: Final = re.compile(r"{(\w+)}")
COMMON_PROBLEMS: Final = (
    *(ProblemKind.BAD_REQUEST, ProblemKind.FOREIGN_HOST, ProblemKind.INTERNAL),
    *(ProblemKind.NOT_JSON, ProblemKind.TOO_LARGE, ProblemKind.TOO_MANY),
)
"""The problems of every route. Routes without parameters also read a body, which must be empty or an empty
object."""
_CHANGE_PROBLEMS: Final = (ProblemKind.CONTROL_OFF, ProblemKind.BAD_TOKEN)
_ACTOR: Final = {
    "name": "X-Groupd-Actor",
    "in": "header",
    "required": False,
    "description": "The name of the caller, for the log and the ledger.",
    "schema": {"type": "string"},
}
_LAST_EVENT: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last known event. The stream begins with the event after it.",
    "schema": {"type": "string"},
}

Json = dict[str, Any]


def create_openapi(routes: Sequence[ApiRoute], streams: Sequence[StreamRoute]) -> Json:
    """Return the document as JSON values."""
    all_routes: list[ApiRoute | StreamRoute] = [*routes, *streams]
    queries = [route.query for route in all_routes if route.query is not None]
    bodies = [route.body for route in routes if route.body is not None]
    answers = [route.answer for route in routes if route.answer is not None]
    types = list(dict.fromkeys([*queries, *bodies, *answers, ProblemDocument]))
    schema_of, components = _create_named_schemas(types, unnamed=set(queries))

    def resolved(query: type[Any] | None) -> Json:
        return {} if query is None else components[_find_component_name(schema_of[query])]

    paths: dict[str, Json] = {}
    for route in routes:
        operation = _describe_operation(route, resolved(route.query), schema_of)
        paths.setdefault(BASE_PATH + route.path, {})[route.method.lower()] = operation
    for stream in streams:
        paths.setdefault(BASE_PATH + stream.path, {})["get"] = _describe_stream(
            stream, resolved(stream.query), schema_of
        )
    used = {_find_component_name(schema_of[query]) for query in queries}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupd",
            "version": __version__,
            "description": "Inspect and change the groups of a Kafka group coordinator. Operations without a "
            f"namespace also exist for each namespace, below {BASE_PATH}/namespaces/{{namespace}} "
            f"instead of {BASE_PATH}.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in used},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _create_named_schemas(types: Sequence[Any], unnamed: set[Any]) -> tuple[dict[Any, Json], dict[str, Json]]:
    """Return the schema of each type, and the components that they refer to under the wire names of their classes.

    msgspec names a component after its class. Components of `unnamed` classes keep that name. Raises KeyError for
    any other class without a wire name.
    """
    classes = _list_component_classes(types)
    schemas, components = msgspec.json.schema_components([*types, *classes], ref_template=_REF)
    names = {
        _find_component_name(schema): get_wire_name(cls)
        for cls, schema in zip(classes, schemas[len(types) :], strict=True)
        if cls not in unnamed
    }
    references = {_REF.format(name=old): _REF.format(name=new) for old, new in names.items()}
    schema_of = dict(zip(types, _replace_texts(schemas[: len(types)], references), strict=True))
    named = {
        names.get(name, name): schema | {"title": names.get(name, name)}
        for name, schema in components.items()
    }
    assert len(named) == len(components), "two components have the same wire name"
    return schema_of, _replace_texts(named, references)


def _list_component_classes(types: Sequence[Any]) -> list[type[Any]]:
    """Return the classes that msgspec describes in components of their own."""
    found: dict[type[Any], None] = {}

    def visit(part: object) -> None:
        cls = getattr(part, "cls", None)
        if cls in found:
            return
        if cls is not None:
            found[cls] = None
        if isinstance(part, inspect.Type | inspect.Field):
            visit([getattr(part, name) for name in part.__struct_fields__])
        elif isinstance(part, tuple | list):
            for each in part:
                visit(each)

    visit(inspect.multi_type_info(types))
    return list(found)


def _find_component_name(schema: Json) -> str:
    """Return the name of the component that a schema refers to."""
    name: str = schema["$ref"].rpartition("/")[2]
    return name


def _replace_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a JSON value in which each text that is a key of `texts` is replaced."""
    if isinstance(value, dict):
        return {name: _replace_texts(each, texts) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_replace_texts(each, texts) for each in value]
    return texts.get(value, value) if isinstance(value, str) else value


def _describe_operation(route: ApiRoute, query: Json, schemas_by_type: dict[Any, Any]) -> Json:
    problems = [*COMMON_PROBLEMS, *route.problems]
    content: Json = {JSON_TYPE: {"schema": schemas_by_type.get(route.answer)}}
    if route.text is not None:
        content["text/plain"] = {"schema": {"type": "string"}}
    operation: Json = {
        "operationId": _create_operation_id(route.method, route.path),
        "summary": route.summary,
        "tags": [_find_tag(route.path)],
        "parameters": [*_describe_path_parameters(route.path), *_describe_query_parameters(query)],
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": False,
            "content": {JSON_TYPE: {"schema": schemas_by_type[route.body]}},
        }
    if route.changes:
        problems += _CHANGE_PROBLEMS
        operation["parameters"].append(_ACTOR)
        operation["security"] = [{}, {"token": []}]
    success: Json = {"204": {"description": "Done."}}
    if route.answer is not None:
        success = {"200": {"description": route.summary, "content": content}}
    operation["responses"] = success | _describe_problems(problems, schemas_by_type)
    return operation


def _describe_stream(route: StreamRoute, query: Json, schemas_by_type: dict[Any, Any]) -> Json:
    content = {route.content_type: {"schema": {"type": "string"}}}
    parameters = [*_describe_path_parameters(route.path), *_describe_query_parameters(query)]
    if route.is_endless:
        parameters.append(_LAST_EVENT)
    return {
        "operationId": _create_operation_id("GET", route.path),
        "summary": route.summary,
        "tags": [_find_tag(route.path)],
        "parameters": parameters,
        "responses": {"200": {"description": route.summary, "content": content}}
        | _describe_problems([*COMMON_PROBLEMS, *route.problems], schemas_by_type),
    }


def _describe_problems(kinds: Iterable[ProblemKind], schemas_by_type: dict[Any, Any]) -> Json:
    """Return one response per status, with the kinds of problems of that status."""
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(kind.status, []).append(kind.word)
    content = {PROBLEM_TYPE: {"schema": schemas_by_type[ProblemDocument]}}
    return {
        str(status): {"description": ", ".join(words), "content": content}
        for status, words in sorted(by_status.items())
    }


def _describe_path_parameters(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATH_NAME.findall(path)
    ]


def _describe_query_parameters(schema: Json) -> list[Json]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": of}
        for name, of in schema.get("properties", {}).items()
    ]


def _find_tag(path: str) -> str:
    return path.split("/")[1] if path else "index"


def _create_operation_id(method: str, path: str) -> str:
    words = re.findall(r"\w+", path)
    return "_".join([method.lower(), *words])
