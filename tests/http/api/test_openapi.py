"""The OpenAPI document is valid, responses conform to it, and random requests do no harm."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.control.problem import ProblemKind
from coordinator.http.api.api_messages import PROBLEM_TYPE
from coordinator.http.api.openapi import create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import Client, join_alone
from tests.http.api.api_port import JSON, Api, serving_api

DOCUMENT: Final[dict[str, Any]] = msgspec.json.decode(
    msgspec.json.encode(create_openapi(ALL_ROUTES, ALL_STREAMS))
)
NAMES: Final = {
    "group": "billing",
    "member": "test-client",
    "n": "0",
    "name": "slow",
    "node_id": "1",
    "namespace": "default",
    "topic": "orders",
}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def references(value: Any) -> Iterator[str]:
    """Every $ref in a JSON value."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def check(value: Any, schema: Any) -> None:
    """Whether a value is as a schema of the document has it."""
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(value)


def test_every_route_is_there_once() -> None:
    routes = {(route.method, "/v1" + route.path) for route in ALL_ROUTES}
    routes |= {("GET", "/v1" + stream.path) for stream in ALL_STREAMS}
    assert {(method, path) for method, path, _ in operations()} == routes
    assert len(routes) == len(ALL_ROUTES) + len(ALL_STREAMS)
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)
    for _, path, operation in operations():
        in_path = {part["name"] for part in operation["parameters"] if part["in"] == "path"}
        assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert any(status.startswith("2") for status in operation["responses"])


def test_its_schemas_are_schemas() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for _, _, operation in operations():
        for parameter in operation["parameters"]:
            jsonschema.Draft202012Validator.check_schema(parameter["schema"])
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in schemas


@pytest.mark.parametrize("route", [route for route in ALL_ROUTES if route.body], ids=lambda route: route.path)
def test_unknown_fields_are_refused_everywhere(route: Any) -> None:
    for taken in (route.body, route.query):
        if taken is not None and taken != dict[str, str]:
            assert taken.__struct_config__.forbid_unknown_fields


async def test_what_is_answered_is_as_it_says() -> None:
    async with serving_api() as api, Client(api.server) as member:
        await join_alone(member, "billing")
        for method, path, operation in operations():
            if method != "GET" or path.endswith(("/stream", ".jsonl", "/metrics", "/metrics/groups")):
                continue
            for names in (NAMES, *(dict.fromkeys(NAMES, name) for name in (*NAMES.values(), "nobody"))):
                asked = path.format(**names)
                answer = await api.call("GET", asked)
                said = operation["responses"][str(answer.status)]["content"]
                check(answer.value, said[answer.content_type]["schema"])
        served = await api.call("GET", "/v1/openapi.json")
        assert served.value == DOCUMENT


# What is sent at random

_TEXT: Final = st.text(max_size=20) | st.sampled_from(["billing", "orders-0", "latest", "+5", "45s", ""])
_NUMBER: Final = st.integers(-(2**70), 2**70) | st.integers(-2, 3)
_ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | _NUMBER | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


def as_schema(schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a schema, more or less, and now and then something else."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if depth > 4:
        return _ANYTHING
    if "anyOf" in schema:
        return st.one_of([as_schema(one, depth + 1) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | _TEXT
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {name: as_schema(one, depth + 1) for name, one in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=fields) | _ANYTHING
    if kind == "object":
        inner = schema.get("additionalProperties")
        values = as_schema(inner, depth + 1) if isinstance(inner, dict) else _ANYTHING
        return st.dictionaries(_TEXT, values, max_size=3)
    if kind == "array":
        return st.lists(as_schema(schema.get("items") or {}, depth + 1), max_size=3)
    known = {
        "string": _TEXT,
        "integer": _NUMBER,
        "boolean": st.booleans(),
        "number": st.floats(),
        "null": st.none(),
    }
    return known.get(str(kind), _ANYTHING)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes | None]:
    """Method, path with query, and body of one request to an operation that ends by itself."""
    method, path, operation = draw(
        st.sampled_from([one for one in operations() if not one[1].endswith(("/stream", "/wait"))])
    )
    for part in operation["parameters"]:
        if part["in"] == "path":
            name = draw(_TEXT.filter(bool))
            path = path.replace(f"{{{part['name']}}}", quote(name, safe=""))
    query = [
        (part["name"], str(draw(as_schema(part["schema"]))))
        for part in operation["parameters"]
        if part["in"] == "query" and draw(st.booleans())
    ]
    body = None
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"][JSON]["schema"]
        value = draw(as_schema(schema) | _ANYTHING)
        if path.endswith(("/step", "/advance", "/failover")):
            value = _at_once(value)
        body = (
            msgspec.json.encode(value)
            if draw(st.integers(0, 9))
            else draw(st.binary(min_size=1, max_size=50))
        )
    return method, f"{path}?{urlencode(query)}" if query else path, body


def _at_once(body: Any) -> Any:
    """Remove the wait time from a body: nothing ends these waits, and there are hundreds of them."""
    if not isinstance(body, dict):
        return body
    shorter = {
        name: value % 10 if isinstance(value, int) and value > 0 else value for name, value in body.items()
    }
    return {"settle": 0} | shorter


async def ask(api: Api, method: str, path: str, body: bytes | None) -> None:
    """Asks, and looks at the answer."""
    headers = {} if body is None else {"Content-Type": JSON}
    answer = await api.call(method, path, data=body, headers=headers)
    assert answer.status < 500 or answer.problem == ProblemKind.LOADING.word, (method, path, body, answer)
    if answer.status >= 400:
        assert answer.content_type == PROBLEM_TYPE
        assert answer.problem in {kind.word for kind in ProblemKind}


async def test_what_is_sent_at_random_is_answered_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with serving_api() as api, Client(api.server) as member:
        await join_alone(member, "billing")
        loop = asyncio.get_running_loop()

        @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(request=requests())
        def send(request: tuple[str, str, bytes | None]) -> None:
            asyncio.run_coroutine_threadsafe(ask(api, *request), loop).result(60)

        await asyncio.to_thread(send)
        assert (await api.call("GET", "/v1/groups")).status == 200
        assert await member.call(ListGroupsRequest(), 0)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
