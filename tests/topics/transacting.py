"""Producers with transactions, and the markers that end them."""

from coordinator.topics.data_plane_answer import MarkerWritten
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from protocol.messages.produce import PartitionProduceResponse
from storage.batch import encode_batch
from storage.producers.end_transaction_marker import EndMarker
from storage.record import Record
from tests.topics.broker import NOW_MS, Broker

TV1 = 11
"""The last version of Produce of which partitions are verified, not added."""


def transactional(
    producer_id: int, epoch: int, sequence: int, count: int = 1, *, value: bytes = b"v", time_ms: int = NOW_MS
) -> bytes:
    """A batch of a transaction."""
    return encode_batch(
        [Record(0, time_ms, b"k", value, ()) for _ in range(count)],
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def write(
    broker: Broker,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    *,
    topic: str = "orders",
    partition: int = 0,
    acks: int = -1,
    version: int = TV1,
) -> PartitionProduceResponse:
    """What became of one batch of a transaction."""
    data = transactional(producer_id, epoch, sequence, count)
    return broker.produce(topic, data, partition, acks=acks, version=version, transactional_id="t")


def end(
    broker: Broker,
    producer_id: int = 7,
    epoch: int = 0,
    *,
    is_committed: bool = True,
    coordinator_epoch: int = 0,
    level: int = 0,
    topic: str = "orders",
    partition: int = 0,
) -> MarkerWritten:
    """What became of a marker."""
    marker = EndMarker(is_committed, coordinator_epoch)
    return broker.plane.write_marker(topic, partition, producer_id, epoch, marker, level, broker.now)


def commit(broker: Broker, producer_id: int = 7, epoch: int = 0, *, level: int = 0) -> None:
    """Ends a transaction in the only partition that matters."""
    assert end(broker, producer_id, epoch, level=level).error is ErrorCode.NONE


def abort(broker: Broker, producer_id: int = 7, epoch: int = 0, *, level: int = 0) -> None:
    """Abort a transaction in the only partition."""
    assert end(broker, producer_id, epoch, is_committed=False, level=level).error is ErrorCode.NONE


class Says:
    """A coordinator with one answer."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def __call__(self, question: AddOrVerifyRequest) -> AddOrVerifyResult:
        return dict.fromkeys(question.partitions, self._code)


def described(
    broker: Broker, topic: str = "orders", partition: int = 0
) -> DescribeProducersPartitionResponse:
    """Return the DescribeProducers response about a partition."""
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[partition])
    response = broker.ask(DescribeProducersRequest(topics=[asked]), DescribeProducersResponse)
    return response.topics[0].partitions[0]


def producer(
    broker: Broker, producer_id: int = 7, *, topic: str = "orders"
) -> DescribeProducersProducerState:
    """Return the part about one producer."""
    (found,) = (each for each in described(broker, topic).active_producers if each.producer_id == producer_id)
    return found
