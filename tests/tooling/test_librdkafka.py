"""The repeated requests of `tests/librdkafka.py`, at a broker that cannot answer the first ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_rule import ActionSpec, FaultRule, RequestMatch
from tests.broker.harness import serving
from tests.librdkafka import committed_offsets, end_offset

REFUSALS = 3
PARTITION = TopicPartition("orders", 1)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, topics=[("orders", 1)]) as server:
        yield server


def bootstrap_servers(server: Server) -> str:
    return f"127.0.0.1:{server.endpoints[0].port}"


def reader(server: Server) -> "closing[Consumer]":
    return closing(Consumer({"bootstrap.servers": bootstrap_servers(server), "group.id": "readers"}))


async def test_the_end_of_an_unknown_partition_is_read_once_the_partition_exists(server: Server) -> None:
    with reader(server) as consumer:
        with pytest.raises(KafkaException) as failure:
            await asyncio.to_thread(consumer.get_watermark_offsets, PARTITION, timeout=10)
        assert failure.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
        reading = asyncio.create_task(asyncio.to_thread(end_offset, consumer, PARTITION))
        admin = AdminClient({"bootstrap.servers": bootstrap_servers(server)})
        await asyncio.to_thread(admin.create_partitions([NewPartitions("orders", 2)])["orders"].result, 60)
        assert await reading == 0


async def test_offsets_are_fetched_once_the_coordinator_is_known(server: Server) -> None:
    control = ControlPlane(server)
    refuse = ActionSpec(at="request", error="NOT_COORDINATOR")
    control.faults.install_fault(
        FaultRule(name="moved", match=RequestMatch(api="OffsetFetch"), times=REFUSALS, do=refuse)
    )
    with reader(server) as consumer:
        [found] = await asyncio.to_thread(committed_offsets, consumer, [PARTITION])
    assert found.offset < 0
    assert control.faults.get_status("moved").hit == REFUSALS
    control.close()
