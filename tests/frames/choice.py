"""Selection of the exchanges that show a field in a new way."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from protocol.codec import decode
from protocol.framing import parse_request_header, response_body_position
from protocol.schema import layout
from tests.frames.recording import Exchange

MAX_BYTES: Final = 3000
"""Of both frames together; a longer exchange is kept only where it is the first of its API and version."""

Sight = tuple[str, str]


def choose(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """For every client, API and version: short ones first, each that adds something."""
    return new_to((), exchanges)


def new_to(kept: Iterable[Exchange], exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Select the exchanges that add something to the kept ones."""
    seen: dict[tuple[str, str, int], set[Sight]] = defaultdict(set)
    for exchange in kept:
        seen[exchange.client, exchange.api.name, exchange.version] |= set(sights_of(exchange))
    chosen = []
    for exchange in sorted(
        exchanges, key=lambda each: (len(each.request) + len(each.response), each.request)
    ):
        so_far = seen[exchange.client, exchange.api.name, exchange.version]
        if so_far and len(exchange.request) + len(exchange.response) > MAX_BYTES:
            continue
        sights = set(sights_of(exchange))
        if not sights <= so_far:
            so_far |= sights
            chosen.append(exchange)
    return chosen


def sights_of(exchange: Exchange) -> Iterator[Sight]:
    """Return the features of an exchange: each field of both messages, and whether it is null, empty, zero,
    negative, …"""
    _, api, version, request, response = exchange
    header = parse_request_header(request)
    yield "client id", _kind(header.client_id)
    yield from _of(decode(api.request, version, request, header.body_position), version, "request")
    body = response_body_position(api.key, version, response)
    yield from _of(decode(api.response, version, response, body), version, "response")


def _of(value: Any, version: int, path: str) -> Iterator[Sight]:
    if isinstance(value, Struct):
        for entry in layout(type(value), version):
            yield from _of(getattr(value, entry.name), version, f"{path}.{entry.name}")
    elif isinstance(value, list):
        yield path, "empty" if not value else "one" if len(value) == 1 else "several"
        for item in value:
            yield from _of(item, version, f"{path}[]")
    elif path.endswith("error_code"):
        yield path, "an error" if value else "none"
    else:
        yield path, _kind(value)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return "zero" if not value else "negative" if value < 0 else "positive"
    return "something" if any(value) else "empty or zero" if isinstance(value, bytes) else "empty"
