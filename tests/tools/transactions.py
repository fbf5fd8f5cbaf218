"""Transactions for kafka-transactions, and its output about them."""

import time
from typing import Final

from confluent_kafka import Producer

from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kafka_log.connection import Connection
from tests.tools.desk import WAIT_S, Desk
from tests.topics.transacting import TV1, transactional

LONG_MS: Final = 600_000
"""No transaction ends because its time is over."""
HOUR_MS: Final = 60 * 60 * 1000
"""The tool considers unknown transactions older than 15 minutes as hanging."""


def begun(desk: Desk, transactional_id: str, topic: str, *partitions: int) -> Producer:
    """A producer with a transaction that has a record in each of the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": desk.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": LONG_MS,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, partition=partition, value=b"v")
    assert producer.flush(WAIT_S) == 0
    return producer


def listed(desk: Desk, transactional_id: str, *arguments: str) -> dict[str, str] | None:
    """The row of a transactional id, if it is listed."""
    found = [
        row for row in desk.transactions("list", *arguments) if row["TransactionalId"] == transactional_id
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


def described_producers(desk: Desk, topic: str, partition: int) -> list[dict[str, str]]:
    """Who has written to a partition."""
    where = ("--topic", topic, "--partition", str(partition))
    return desk.transactions("describe-producers", *where)


def write_unknown(address: str, topic: str, partition: int) -> None:
    """Write a record one hour in the past, of a transaction of producer 4711 that no coordinator knows. `address`
    is the leader of the partition and must not verify transactions.
    """
    data = transactional(4711, 3, 0, time_ms=time.time_ns() // 1_000_000 - HOUR_MS)
    part = PartitionProduceData(index=partition, records=data)
    request = ProduceRequest(
        transactional_id="lost",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[part])],
    )
    with Connection(address) as connection:
        (answer,) = connection.call(request, TV1).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE
