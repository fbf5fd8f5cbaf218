import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from tests.topics.broker import NOW_MS, Broker, sequenced
from tests.topics.transacting import commit, described, end, producer, write


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.create("orders", 2)


def test_before_within_and_after_a_transaction(broker: Broker) -> None:
    assert described(broker).active_producers == []
    broker.produce("orders", sequenced(8, 1, 0, 4))
    write(broker, count=3)
    plain = DescribeProducersProducerState(
        producer_id=8,
        producer_epoch=1,
        last_sequence=3,
        last_timestamp=NOW_MS,
        coordinator_epoch=-1,
        current_txn_start_offset=-1,
    )
    within = DescribeProducersProducerState(
        producer_id=7,
        producer_epoch=0,
        last_sequence=2,
        last_timestamp=NOW_MS,
        coordinator_epoch=-1,
        current_txn_start_offset=4,
    )
    assert described(broker).active_producers == [plain, within]
    assert described(broker, partition=1).active_producers == []
    broker.advance(10)
    end(broker, coordinator_epoch=3)
    after = producer(broker)
    assert (after.last_timestamp, after.coordinator_epoch, after.current_txn_start_offset) == (
        NOW_MS + 10,
        3,
        -1,
    )


@pytest.mark.parametrize(("level", "epoch", "last_sequence"), [(0, 0, 2), (2, 1, -1)])
def test_the_sequences_of_an_epoch_go_with_it(
    broker: Broker, level: int, epoch: int, last_sequence: int
) -> None:
    write(broker, count=3)
    commit(broker, epoch=epoch, level=level)
    assert (producer(broker).producer_epoch, producer(broker).last_sequence) == (epoch, last_sequence)


def test_what_does_not_exist(broker: Broker) -> None:
    topic, partition = described(broker, "gone"), described(broker, partition=2)
    assert (topic.error_code, topic.error_message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
    assert (partition.error_code, partition.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    unnamed = described(broker, "no/name")
    assert (unnamed.error_code, unnamed.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION.message,
    )


def test_a_partition_that_is_named_again_is_described_once(broker: Broker) -> None:
    broker.produce("orders", sequenced(8, 1, 0, 4))
    write(broker, count=3)
    names = [("orders", [0, 0, 1]), ("gone", [0, 0]), ("orders", [1, 0, 2])]
    topics = [
        DescribeProducersTopicRequest(name=name, partition_indexes=partitions) for name, partitions in names
    ]
    answer = broker.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    described_once = [
        (topic.name, [part.partition_index for part in topic.partitions]) for topic in answer.topics
    ]
    assert described_once == [("orders", [0, 1, 2]), ("gone", [0])]
    producers = answer.topics[0].partitions[0].active_producers
    assert sorted(each.producer_id for each in producers) == [7, 8]
