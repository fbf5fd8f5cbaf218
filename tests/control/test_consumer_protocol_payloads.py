"""Subscriptions as operators see them, up to a size."""

from functools import partial

import pytest

from coordinator.control.consumer_protocol_payloads import (
    MAX_GROUP_TOPICS,
    MAX_PAYLOAD_BYTES,
    SubscriptionCache,
    SubscriptionReader,
)
from coordinator.group.group_view import MemberView
from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    count_subscribed_topics,
    encode_subscription,
)
from tests.executed_code import count_bytecodes
from tests.group.ask import named


def member(metadata: bytes) -> MemberView:
    return MemberView(
        name=named("m"),
        connection_id=0,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        silent_ms=0,
        session_left_ms=10_000,
        is_new=False,
        is_awaiting_join=False,
        is_awaiting_sync=False,
        protocols=("range",),
        metadata=metadata,
        assignment=b"",
    )


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics), user_data=user_data), 1)


def test_a_subscription_is_read() -> None:
    reader, reads = SubscriptionReader(), member(subscription("a", "b"))
    assert reader.read_topics(reads) == frozenset({"a", "b"})
    assert not reader.is_too_large(reads)


def test_bytes_that_are_no_subscription_are_not_too_large() -> None:
    reader = SubscriptionReader()
    for metadata in (b"", b"\0", b"opaque bytes of an assignor", b"\0\1\xff\xff\xff\xff"):
        assert reader.read_topics(member(metadata)) is None
        assert not reader.is_too_large(member(metadata))


def test_a_subscription_that_is_too_long_costs_nothing() -> None:
    topics = [""] * (MAX_PAYLOAD_BYTES // 2)
    reader, large = SubscriptionReader(), member(subscription(*topics))
    found, bytecodes = count_bytecodes(partial(reader.read_topics, large))
    assert (found, reader.is_too_large(large)) == (None, True)
    assert bytecodes < 500


def test_the_topics_of_a_group_are_counted_together() -> None:
    count = MAX_PAYLOAD_BYTES // 4
    members = [member(subscription(*[""] * count, user_data=bytes([number]))) for number in range(10)]
    reader = SubscriptionReader()
    read = [reader.read_topics(each) is not None for each in members]
    fitting = MAX_GROUP_TOPICS // count
    assert read == [number < fitting for number in range(10)]
    assert [reader.is_too_large(each) for each in members] == [not is_read for is_read in read]
    equal = [member(members[0].metadata) for _ in range(100)]
    assert {reader.read_topics(each) for each in equal} == {frozenset([""])}


def test_a_subscription_is_decoded_once_for_several_readers() -> None:
    reads = member(subscription(*[f"topic-{number}" for number in range(1_000)]))
    SubscriptionReader().read_topics(reads)
    found, bytecodes = count_bytecodes(partial(SubscriptionReader().read_topics, reads))
    assert found is not None
    assert len(found) == 1_000
    assert bytecodes < 500


def test_the_cache_forgets_the_oldest() -> None:
    cache = SubscriptionCache(max_topics=10)
    subscriptions = [subscription(*[f"{name}-{number}" for number in range(4)]) for name in "abc"]
    for metadata in subscriptions:
        cache.decode(metadata)
    (_, kept), (_, forgotten) = (
        count_bytecodes(partial(cache.decode, metadata)) for metadata in (subscriptions[2], subscriptions[0])
    )
    assert kept < forgotten
    for number in range(100):
        assert cache.decode(b"opaque %d" % number) is None
    assert cache.decode(subscriptions[0]) == frozenset(f"a-{number}" for number in range(4))


@pytest.mark.parametrize(
    ("metadata", "count"),
    [
        (subscription("a", "b"), 2),
        (subscription(), 0),
        (b"", 0),
        (b"\0\1\0\0\0", 0),
        (b"\0\1\xff\xff\xff\xff", 0),
    ],
)
def test_topics_are_counted_without_decoding(metadata: bytes, count: int) -> None:
    assert count_subscribed_topics(metadata) == count
