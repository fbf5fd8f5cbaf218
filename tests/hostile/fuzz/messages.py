"""Targets: every message at every version, headers, and the bytes that clients store in a group."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from protocol import codec
from protocol.apis import APIS
from protocol.codec import decode_prefix
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    find_subscribed_topics,
)
from protocol.framing import parse_request_header, response_body_position
from protocol.primitives import DecodingBudget, Malformed
from tests.frames.recording import read as exchanges
from tests.hostile.fuzz.target import Target
from tests.protocol.declared import ALL, full, name

BUDGET: Final = DecodingBudget(elements=6, unknown_tags=2)
"""So little that inputs of a few bytes exceed it."""


def message_targets() -> Iterator[Target]:
    """A target for each declared message and version."""
    captured: defaultdict[tuple[type[Any], int], list[bytes]] = defaultdict(list)
    for exchange in exchanges():
        header = parse_request_header(exchange.request)
        captured[exchange.api.request, exchange.version].append(exchange.request[header.body_position :])
        position = response_body_position(exchange.api.key, exchange.version, exchange.response)
        captured[exchange.api.response, exchange.version].append(exchange.response[position:])
    for declared in ALL:
        cls, version = declared
        seeds = (codec.encode(full(cls, version), version), *captured[declared])
        read = partial(read_message, cls, version)
        if cls.__name__.endswith("Request"):
            read = partial(read_request, cls, version, codec.request_decoder(cls, version, BUDGET))
        yield Target(name(declared), seeds, read, (Malformed,))


def read_request(cls: type[Any], version: int, bounded: Callable[[bytes], Any], data: bytes) -> None:
    """Read a request as from an unknown client. Within the budget it decodes as without one, and otherwise it is
    refused."""
    try:
        message = bounded(data)
    except Malformed:
        message = decode_prefix(cls, version, data)
        has_unknown_tags = not data.startswith(codec.encode(message, version))
        assert elements(message) > BUDGET.elements or has_unknown_tags, "refused within the budget"
    else:
        assert elements(message) <= BUDGET.elements, "more elements than allowed"
        assert message == decode_prefix(cls, version, data), "the budget changes the message"
        spare = len(data) - len(codec.encode(message, version))
        assert spare >= 0, "the encoding is longer than the input"
    read_message(cls, version, data)


def elements(value: Any) -> int:
    """How many elements all arrays of a message have."""
    if isinstance(value, list):
        return len(value) + sum(elements(one) for one in value)
    if hasattr(type(value), "__slots__") and type(value).__module__.startswith("protocol."):
        return sum(elements(getattr(value, field)) for field in type(value).__struct_fields__)
    return 0


def read_message(cls: type[Any], version: int, data: bytes) -> None:
    """Decode as a response (to the end) and as a request (with bytes left over).

    A decoded message has the same value after encoding, and the second encoding equals the first.
    """
    message = decode_prefix(cls, version, data)
    encoded = codec.encode(message, version)
    again = codec.decode(cls, version, encoded)
    assert again == message, "the message encodes to another one"
    assert codec.encode(again, version) == encoded, "one message has two encodings"
    assert len(encoded) <= len(data), "the encoding is longer than the input"
    assert codec.decode(cls, version, data) == message, "a message that ends with the data is another one"


def other_targets() -> Iterator[Target]:
    """Headers, subscriptions, assignments."""
    seeds = tuple(exchange.request[:40] for exchange in exchanges())[::7]
    yield Target("request header", seeds, read_header, (Malformed,))
    responses = tuple(exchange.response[:12] for exchange in exchanges())[::7]
    yield Target("response header", responses, read_response_header, (Malformed,))
    parts = [TopicPartitions(topic="t", partitions=[0, 1, 2])]
    subscription = ConsumerProtocolSubscription(
        topics=["orders", "é"], user_data=b"user", owned_partitions=parts, generation_id=3, rack_id="r"
    )
    subscriptions = tuple(encode_subscription(subscription, version) for version in range(4))
    yield Target("subscription", subscriptions, read_subscription, (Malformed,))
    yield Target("subscribed topics", subscriptions, find_subscribed_topics, (Malformed,))
    assignment = ConsumerProtocolAssignment(assigned_partitions=parts, user_data=b"user")
    assignments = tuple(encode_assignment(assignment, version) for version in range(4))
    yield Target("assignment", assignments, read_assignment, (Malformed,))


def read_header(data: bytes) -> None:
    header = parse_request_header(data)
    assert 10 <= header.body_position <= len(data)
    assert header.api_version in APIS[header.api_key].versions


def read_response_header(data: bytes) -> None:
    for key, api in APIS.items():
        assert 4 <= response_body_position(key, api.versions.last, data) <= len(data)


def read_subscription(data: bytes) -> None:
    subscription = decode_subscription(data)
    version = min(int.from_bytes(data[:2], "big"), 3)
    assert decode_subscription(encode_subscription(subscription, version)) == subscription
    assert find_subscribed_topics(data) == subscription.topics


def read_assignment(data: bytes) -> None:
    assignment = decode_assignment(data)
    version = min(int.from_bytes(data[:2], "big"), 3)
    assert decode_assignment(encode_assignment(assignment, version)) == assignment
