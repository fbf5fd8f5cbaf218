"""Partitions with very many producers."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from coordinator.core.clock import wall_ms
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.hostile.siege.attacker import Attacker, frame, read
from tests.hostile.siege.siege import besieged

PRODUCERS: Final = 10_000
CONNECTIONS: Final = 10
LATEST_MS: Final = 250
ORDERS: Final = ("--topic", "orders:1")
_PIECE: Final = 500
_CRC_AT, _CHECKED_FROM, _PRODUCER_ID_AT = 17, 21, 43


def batches() -> Iterator[bytes]:
    """One batch of each producer."""
    batch = bytearray(encode_batch([Record(-1, wall_ms(), b"k", b"v")], producer_id=0, base_sequence=0))
    for producer_id in range(PRODUCERS):
        struct.pack_into(">q", batch, _PRODUCER_ID_AT, producer_id)
        struct.pack_into(">I", batch, _CRC_AT, crc32c(batch[_CHECKED_FROM:]))
        yield bytes(batch)


def produce(batch: bytes) -> bytes:
    """A Produce that is not answered."""
    topic = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])
    return frame(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic]), 7)


async def write_all(attacker: Attacker) -> None:
    """Write the batch of each producer."""
    client = await attacker.connect()
    frames = [produce(batch) for batch in batches()]
    for start in range(0, len(frames), _PIECE):
        await client.send(b"".join(frames[start : start + _PIECE]))
        assert (await client.call(ListGroupsRequest(), 4)).error_code == ErrorCode.NONE


async def test_unread_descriptions_of_producers_are_bounded(tmp_path: Path) -> None:
    topic = DescribeProducersTopicRequest(name="orders", partition_indexes=[0])
    asked = frame(DescribeProducersRequest(topics=[topic]), 0)
    async with besieged(tmp_path, ORDERS) as siege:
        await write_all(siege.attacker)
        await siege.begin()
        for _ in range(CONNECTIONS):
            await (await siege.attacker.connect(receive_bytes=1)).send(asked * 10)
        patient = await siege.attacker.connect()
        await patient.send(asked)
        assert read(DescribeProducersResponse, 0, await patient.answer()).topics
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll


async def test_producers_of_one_batch_take_little_memory(tmp_path: Path) -> None:
    async with besieged(tmp_path, ORDERS) as siege:
        await siege.begin()
        await write_all(siege.attacker)
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll
