"""A stock client: `python -m tests.docker.environments.stock_client` reads checks from standard input and prints
their failures, both as JSON. It runs in the network namespace of the place that it stands for.

For each address a client connects, creates a topic with a partition for each broker, produces a record to each
partition and consumes them in a group.
"""

import json
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S: Final = 60
"""Bounds a hang."""
_CONNECT_S: Final = 20
"""An address that is not reached fails after this time."""


def check(brokers: int, topics: dict[str, int], config: dict[str, str]) -> str:
    """Return the failures. `topics` has the expected partitions by name."""
    errors: list[KafkaError] = []
    quiet = {**config, "log_level": "0", "error_cb": errors.append}
    admin = AdminClient(quiet)
    try:
        metadata = admin.list_topics(timeout=_CONNECT_S)
    except KafkaException:
        admin.poll(0)
        refused: list[str] = [error.str() for error in errors if error.code() == KafkaError._AUTHENTICATION]
        if refused:
            return refused[0]
        raise
    if len(metadata.brokers) != brokers:
        return f"{len(metadata.brokers)} of {brokers} brokers belong to the cluster"
    for name, partitions in topics.items():
        found = metadata.topics.get(name)
        if found is None or len(found.partitions) != partitions:
            return f"the topic {name} does not have {partitions} partitions"
    topic = f"check-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(topic, brokers)], request_timeout=_CONNECT_S)[topic].result(TIMEOUT_S)
    producer = Producer(quiet)
    for partition in range(brokers):
        producer.produce(topic, b"record", partition=partition)
    if producer.flush(_CONNECT_S):
        return "a record is not acknowledged"
    consumer = Consumer({**quiet, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(brokers, TIMEOUT_S)
    finally:
        consumer.close()
    values = [message.value() for message in messages if message.error() is None]
    return "" if values == [b"record"] * brokers else f"the group gets {values} of {brokers} records"


def run(checks: list[dict[str, Any]]) -> list[str]:
    """Run checks at the same time; return the failures of each."""

    def run_one(arguments: dict[str, Any]) -> str:
        try:
            return check(**arguments)
        except KafkaException as error:
            return str(error.args[0].str() or error.args[0].name())

    with ThreadPoolExecutor(len(checks)) as pool:
        return list(pool.map(run_one, checks))


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
