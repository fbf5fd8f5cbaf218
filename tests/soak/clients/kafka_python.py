"""kafka-python."""

from collections.abc import Mapping

from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop.clients.kafka_python_driver import join_without_time_limit
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


class KafkaPython:
    """A kafka-python consumer."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            group_instance_id=settings.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        join_without_time_limit(self._consumer)
        self._consumer.subscribe(pattern=f"^{settings.pattern}.*")

    async def poll(self) -> dict[Partition, int]:
        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        return {(one.topic, one.partition): records[-1].offset + 1 for one, records in found.items()}

    async def commit(self, offsets: Mapping[Partition, int], token: str) -> None:
        wanted = {
            TopicPartition(topic, number): OffsetAndMetadata(offset, token, -1)
            for (topic, number), offset in offsets.items()
        }
        try:
            self._consumer.commit(offsets=wanted)
        except KafkaError as problem:
            raise Refused(repr(problem)) from problem

    async def close(self) -> None:
        self._consumer.close()
