"""Reads a topic as far as an isolation level lets it."""

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop.broker import READ_TIMEOUT_S, Broker
from tests.librdkafka import partition_leaders

UNCOMMITTED: Final = "read_uncommitted"
COMMITTED: Final = "read_committed"


def read_to_end(broker: Broker, topic: str, isolation_level: str) -> list[str]:
    """Return the values up to each partition's end: its last stable offset for a reader of committed records."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader-without-group",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    values: list[str] = []
    try:
        left = set(partition_leaders(reader, topic))
        reader.assign([TopicPartition(topic, partition, 0) for partition in left])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"{topic}: the end of {left} was not reached"
            for message in reader.consume(1000, timeout=0.1):
                error = message.error()
                if error is None:
                    values.append((message.value() or b"").decode())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
    finally:
        reader.close()
    return values
