"""What consumers put into JoinGroup and SyncGroup, read as Kafka reads it: newer versions are understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from protocol.primitives import Malformed
from tests.protocol.declared import examples

FULL = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"\x09",
    owned_partitions=[TopicPartitions(topic="a", partitions=[0, 2])],
    generation_id=4,
    rack_id="r",
)
V0 = "00000002 0001 61 0001 62 00000001 09"
V1 = V0 + "00000001 0001 61 00000002 00000000 00000002"
V3 = V1 + "00000004 0001 72"


@pytest.mark.parametrize(("version", "body"), [(0, V0), (1, V1), (2, V1 + "00000004"), (3, V3)])
def test_subscriptions(version: int, body: str) -> None:
    data = version.to_bytes(2, "big") + bytes.fromhex(body)
    assert encode_subscription(FULL, version) == data
    read = decode_subscription(data)
    assert (read.topics, read.user_data) == (["a", "b"], b"\x09")
    assert read.owned_partitions == (FULL.owned_partitions if version >= 1 else [])
    assert read.generation_id == (4 if version >= 2 else -1)
    assert read.rack_id == ("r" if version >= 3 else None)
    assert find_subscribed_topics(data) == ["a", "b"]


def test_a_subscription_of_a_version_to_come_is_read_as_far_as_it_is_known() -> None:
    data = bytes.fromhex("0009" + V3 + "aabbcc")
    assert decode_subscription(data) == FULL
    assert find_subscribed_topics(data) == ["a", "b"]


def test_topics_are_read_even_where_later_fields_are_damaged() -> None:
    data = bytes.fromhex("0001" + V0 + "7fffffff")
    assert find_subscribed_topics(data) == ["a", "b"]
    with pytest.raises(Malformed):
        decode_subscription(data)


@pytest.mark.parametrize("text", ["", "00", "0000", "ffff" + V0, "0000 7fffffff", "0000 ffffffff ffffffff"])
def test_what_is_no_subscription(text: str) -> None:
    with pytest.raises(Malformed):
        find_subscribed_topics(bytes.fromhex(text))
    with pytest.raises(Malformed):
        decode_subscription(bytes.fromhex(text))


@examples(300)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_subscription_or_malformed(data: bytes) -> None:
    try:
        topics = find_subscribed_topics(data)
    except Malformed:
        return
    assert all(isinstance(topic, str) for topic in topics)


def test_assignments() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="a", partitions=[1])])
    data = bytes.fromhex("0000 00000001 0001 61 00000001 00000001 ffffffff")
    assert encode_assignment(assignment, 0) == data
    assert decode_assignment(data) == assignment
    assert decode_assignment(bytes.fromhex("0007") + data[2:] + b"more") == assignment
    with pytest.raises(Malformed):
        decode_assignment(b"")
