"""All names of classes that leave the process, and how the API document uses them."""

from collections.abc import Iterator
from typing import Any, Final

from coordinator.cluster import cluster_session
from coordinator.control.faults.fault_matchers import EVENT_KINDS as FAULT_KINDS
from coordinator.control.recording.recorded_classes import RECORDED_CLASSES
from coordinator.core.wire_name import classes_by_wire_name, error_text, get_wire_name
from coordinator.group.consumer.regex_resolution import MatchesTooMuch
from coordinator.http.api.event_stream_routes import EVENT_KINDS as FOLLOWED_KINDS
from coordinator.http.api.openapi import create_openapi
from coordinator.http.api.route_table import ALL_ROUTES, ALL_STREAMS
from coordinator.transactions import transaction_event_types as transaction_events
from tests.golden.versions import write_json
from tests.protocol.declared import DATA, MESSAGES

FILE: Final = "wire_names.json"
SESSION_EVENTS: Final = (
    cluster_session.SessionBegan,
    cluster_session.SessionEnded,
    cluster_session.DuplicateNodeId,
    cluster_session.ClusterGone,
)


def generate(version: str) -> None:
    """Replaces the file of names."""
    write_json(version, FILE, find_wire_names())


def find_wire_names() -> dict[str, list[str]]:
    """Return the names of each kind."""
    names = {
        "recorded classes": RECORDED_CLASSES,
        "followed events": FOLLOWED_KINDS,
        "events of faults": FAULT_KINDS,
        "fields of group events": _event_fields(),
        "transaction events": _transaction_events(),
        "events of a session with etcd": map(get_wire_name, SESSION_EVENTS),
        "errors of work": [error_text(MatchesTooMuch(1)).partition(":")[0]],
        "messages": {cls.__name__ for cls in (*MESSAGES, *DATA)},
        "API": set(_describe_api(create_openapi(ALL_ROUTES, ALL_STREAMS))),
    }
    return {kind: sorted(each) for kind, each in names.items()}


def _event_fields() -> Iterator[str]:
    for name, cls in FAULT_KINDS.items():
        yield from (f"{name}.{field}" for field in cls.__struct_fields__)


def _transaction_events() -> Iterator[str]:
    yield from classes_by_wire_name(transaction_events.TransactionEvent)
    yield get_wire_name(transaction_events.TransactionRecordsSkipped)


def _describe_api(document: Any) -> Iterator[str]:
    """Describe operations, and components with their fields, a line for each."""
    for name, schema in document["components"]["schemas"].items():
        yield f"{name}: title {schema['title']}"
        for field, of in schema.get("properties", {}).items():
            yield f"{name}.{field}: {_types(of)}"
        yield from (f"{name}: {value}" for value in schema.get("enum", ()))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"{method.upper()} {path}"
            yield from (f"{name}: parameter {one['name']}" for one in operation["parameters"])
            if "requestBody" in operation:
                yield f"{name}: takes {_types(operation['requestBody'])}"
            for status, response in operation["responses"].items():
                yield f"{name}: {status} {_types(response)}"


def _types(schema: Any) -> str:
    """Return the components and types that a part of the document names, in their order."""
    return " ".join(_find_types(schema))


def _find_types(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        elif isinstance(part.get("type"), str):
            yield part["type"]
        for each in part.values():
            yield from _find_types(each)
    elif isinstance(part, list):
        for each in part:
            yield from _find_types(each)
