"""A member with fields too large for the log or with too many entries is rejected, and no record is written."""

from functools import partial

from coordinator.core.outcome import Context, Now
from coordinator.group.consumer.group_conversion import convert_to_topic_ids
from coordinator.group.consumer.heartbeat_validation import MAX_SUBSCRIBED_TOPICS, MAX_SUBSCRIPTION_ELEMENTS
from protocol.codec import decode, encode
from protocol.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions, encode_subscription
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.primitives import MAX_STRING_BYTES
from tests.executed_code import count_bytecodes
from tests.group.config import group_config
from tests.group.consumer.classic import INITIAL_DELAY_MS
from tests.group.consumer.members import FOO, THREE, Members
from tests.group.coordinator import GROUP
from tests.group.new_shard import new_shard

MOST_BYTES = 2_000


def group_of_one() -> Members:
    group = Members()
    group.restart(group_config(message_max_bytes=MOST_BYTES))
    assert group.enter("A") == (2, {FOO: [0, 1, 2]})
    return group


def subscribed(names: list[str]) -> list[tuple[str, bytes]]:
    return [("range", encode_subscription(ConsumerProtocolSubscription(topics=names), 1))]


def test_one_whose_record_the_log_would_not_take() -> None:
    group = group_of_one()
    before = list(group.records)
    error, _ = group.enter("B", [f"a-topic-with-a-name-{number}" for number in range(100)])
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.records == before
    assert group.say("A", 2) == (2, None)
    assert [member.member_id for member in group.described().members] == ["A"]


def test_one_that_grows_until_the_log_would_not_take_it_stays_as_it_was() -> None:
    group = group_of_one()
    names = ["foo", *(f"a-topic-with-a-name-{number}" for number in range(100))]
    error, _ = group.say("A", 2, names=names)
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.described().members[0].subscribed_topic_names == ["foo"]


def test_one_of_the_classic_protocol() -> None:
    group = group_of_one()
    before = list(group.records)
    long = group.join("B", protocols=subscribed(["x" * 1_900]))
    assert long.error is ErrorCode.UNKNOWN_SERVER_ERROR
    longer = group.join("B", protocols=subscribed(["x" * 2_100]))
    assert longer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.records == before


def test_a_classic_group_that_is_too_large_is_refused_before_its_subscriptions_are_read() -> None:
    group = Members()
    group.restart(group_config(message_max_bytes=MOST_BYTES))
    unreadable = [("range", bytes([255]) * (MOST_BYTES + 1))]
    member_id = group.join(protocols=unreadable).joined.member_id
    ask = group.join(member_id, protocols=unreadable)
    group.advance(INITIAL_DELAY_MS)
    generation = ask.joined.generation_id
    before = list(group.records)
    for _ in range(2):
        assert group.enter("new")[0] is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.records == before
    assert group.heartbeat(member_id, generation) is ErrorCode.NONE
    assert group.state() == "CompletingRebalance"


def test_more_names_than_anybody_should_count() -> None:
    group = Members()
    group.restart(group_config(message_max_bytes=1_000_000))
    error, message = group.enter("A", ["foo"] * (MAX_SUBSCRIBED_TOPICS + 1))
    assert error is ErrorCode.INVALID_REQUEST
    assert str(MAX_SUBSCRIBED_TOPICS) in str(message)
    assert group.enter("A", ["foo"] * MAX_SUBSCRIBED_TOPICS) == (2, {FOO: [0, 1, 2]})
    assert group.say("A", 2, names=["foo"] * (MAX_SUBSCRIBED_TOPICS + 1))[0] is ErrorCode.INVALID_REQUEST
    assert (
        group.join("B", protocols=subscribed(["foo"] * (MAX_SUBSCRIBED_TOPICS + 1))).error
        is ErrorCode.INVALID_REQUEST
    )


def owning(topics: list[TopicPartitions]) -> list[tuple[str, bytes]]:
    subscription = ConsumerProtocolSubscription(topics=["foo"], owned_partitions=topics)
    return [("range", encode_subscription(subscription, 1))]


def test_more_owned_partitions_than_a_subscription_may_have() -> None:
    group = Members()
    group.restart(group_config(message_max_bytes=1_000_000))
    assert group.enter("A") == (2, {FOO: [0, 1, 2]})
    before = list(group.records)
    largest = TopicPartitions(topic="foo", partitions=list(range(MAX_SUBSCRIPTION_ELEMENTS - 2)))
    larger = TopicPartitions(topic="foo", partitions=[*largest.partitions, 0])
    assert group.join("B", protocols=owning([larger])).error is ErrorCode.INVALID_REQUEST
    assert group.records == before
    assert group.join("B", protocols=owning([largest])).error is ErrorCode.NONE


class HashedNumber(int):
    """A partition that counts how often it is hashed."""

    hashes = 0

    def __hash__(self) -> int:
        HashedNumber.hashes += 1
        return int.__hash__(self)


def test_a_topic_that_is_repeated_for_each_partition_is_converted_once() -> None:
    count = 300
    image = Members().topics
    topics = [TopicPartitions(topic="foo", partitions=[HashedNumber(n % 100)]) for n in range(count)]
    HashedNumber.hashes = 0
    assert convert_to_topic_ids(topics, image) == {FOO: tuple(range(100))}
    assert HashedNumber.hashes <= 2 * count


def test_errors_about_long_names_can_be_read() -> None:
    group, long = Members(), "é" * (MAX_STRING_BYTES // 2)
    pending = [
        group.beat(long, 1, group=long),
        group.beat("A", 0, names=["foo"], owned={}, rebalance=60_000, assignor=long),
        group.beat("A", 0, regex="(" * MAX_STRING_BYTES, owned={}, rebalance=60_000),
    ]
    for ask in pending:
        response = ask.answer(ConsumerGroupHeartbeatResponse)
        assert decode(ConsumerGroupHeartbeatResponse, 1, encode(response, 1)).error_message
    missing = group.described(long)
    answer = ConsumerGroupDescribeResponse(groups=[missing])
    assert decode(ConsumerGroupDescribeResponse, 1, encode(answer, 1)).groups == [missing]


def test_names_that_no_topic_has_cost_another_member_nothing() -> None:
    costs = []
    for count in (100, 1_000):
        shard = new_shard(topics=THREE)
        for number in range(4):
            many = [f"{number}-{name}" for name in range(count)] if number < 3 else []
            join = ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=f"member-{number}",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["foo", *many],
                topic_partitions=[],
            )
            context, now = Context(number, 1, "client", "/host"), Now(2_000 * number, 2_000 * number)
            outcome, cost = count_bytecodes(partial(shard.handle, join, context, now))
            ((_, response),) = outcome.replies
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            assert response.error_code == ErrorCode.NONE
        costs.append(cost)
    assert max(costs) < 1.1 * min(costs)
