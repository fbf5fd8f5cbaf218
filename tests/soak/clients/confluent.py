"""confluent-kafka, which is librdkafka."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.soak.clients.client import (
    HEARTBEAT_MS,
    METADATA_MAX_AGE_MS,
    POLL_S,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Partition,
    Refused,
    Settings,
)


class Confluent:
    """A librdkafka consumer."""

    def __init__(self, settings: Settings) -> None:
        properties = {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": REBALANCE_TIMEOUT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
        }
        if settings.instance_id is not None:
            properties["group.instance.id"] = settings.instance_id
        self._consumer = Consumer(properties)
        self._consumer.subscribe([f"^{settings.pattern}.*"])

    async def poll(self) -> dict[Partition, int]:
        found = self._consumer.consume(100, POLL_S)
        return {(one.topic(), one.partition()): one.offset() + 1 for one in found if one.error() is None}

    async def commit(self, offsets: Mapping[Partition, int], token: str) -> None:
        wanted = [TopicPartition(topic, number, offset, token) for (topic, number), offset in offsets.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as problem:
            raise Refused(str(problem)) from problem
        errors = [one.error for one in done if one.error is not None]
        if errors:
            raise Refused(str(errors[0]))

    async def close(self) -> None:
        self._consumer.close()
