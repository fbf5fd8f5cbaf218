"""aiokafka."""

import asyncio
import logging
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.soak.clients.client import (
    COMMIT_S,
    HEARTBEAT_MS,
    METADATA_MAX_AGE_MS,
    POLL_S,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Partition,
    Refused,
    Settings,
)


class AioKafka:
    """An aiokafka consumer."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            group_instance_id=settings.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        self._consumer.subscribe(pattern=f"^{settings.pattern}.*")
        self._is_started = False

    async def poll(self) -> dict[Partition, int]:
        if not self._is_started:
            await self._consumer.start()
            self._is_started = True
        try:
            found = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000))
        except KafkaError as problem:
            logging.warning("nothing consumed: %r", problem)
            await asyncio.sleep(POLL_S)
            return {}
        return {(one.topic, one.partition): records[-1].offset + 1 for one, records in found.items()}

    async def commit(self, offsets: Mapping[Partition, int], token: str) -> None:
        wanted = {
            TopicPartition(topic, number): (offset, token) for (topic, number), offset in offsets.items()
        }
        try:
            # It would ask again and again for a topic that was deleted meanwhile.
            await asyncio.wait_for(self._consumer.commit(wanted), COMMIT_S)
        except (KafkaError, TimeoutError) as problem:
            raise Refused(repr(problem)) from problem

    async def close(self) -> None:
        await self._consumer.stop()
