"""Frames that a real broker answered: each decodes, and encodes to the very same bytes.

The first line of the file says where they come from. Each other line is a request and its response, whole
frames without their size. They hold what no declaration shows by itself: which header goes with which version,
what is null and what is empty, which tags a broker leaves out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.apis import APIS, Api, ApiKey
from protocol.codec import decode
from protocol.framing import encode_request, encode_response, parse_request_header, response_body_position

FRAMES = Path(__file__).with_name("kafka-4.4.0.jsonl")
GROUP_APIS = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)
KAFKA_4_LOWEST = {ApiKey.OFFSET_COMMIT: 2, ApiKey.OFFSET_FETCH: 1}
"""The group APIs of which Kafka 4 no longer answers every version."""


class Exchange(NamedTuple):
    """A request and what the broker answered."""

    api: Api
    version: int
    request: bytes
    response: bytes


def exchanges() -> Iterator[Exchange]:
    """What is in the file."""
    by_name = {api.name: api for api in APIS.values()}
    for line in FRAMES.read_text("ascii").splitlines()[1:]:
        entry = json.loads(line)
        yield Exchange(
            by_name[entry["api"]],
            entry["version"],
            bytes.fromhex(entry["request"]),
            bytes.fromhex(entry["response"]),
        )


EXCHANGES = list(exchanges())
each = pytest.mark.parametrize(
    "exchange", EXCHANGES, ids=[f"{one.api.name}-v{one.version}-{row}" for row, one in enumerate(EXCHANGES)]
)


@each
def test_the_request_encodes_to_the_same_bytes(exchange: Exchange) -> None:
    api, version, frame, _ = exchange
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version) == (api.key, version)
    request = decode(api.request, version, frame, header.body_position)
    again = encode_request(api.key, version, header.correlation_id, header.client_id, request)
    assert bytes(again) == len(frame).to_bytes(4, "big") + frame


@each
def test_the_response_encodes_to_the_same_bytes(exchange: Exchange) -> None:
    api, version, request, frame = exchange
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    assert correlation_id == parse_request_header(request).correlation_id
    response = decode(api.response, version, frame, response_body_position(api.key, version, frame))
    again = encode_response(api.key, version, correlation_id, response)
    assert bytes(again) == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("key", GROUP_APIS)
def test_every_version_of_a_group_api_is_there(key: ApiKey) -> None:
    versions = APIS[key].versions
    there = {exchange.version for exchange in EXCHANGES if exchange.api.key == key}
    assert there == set(range(KAFKA_4_LOWEST.get(key, versions.first), versions.last + 1))
