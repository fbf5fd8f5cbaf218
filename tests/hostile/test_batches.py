"""Batches that are small as they come and large when they are looked at."""

import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from storage.batch import HEADER_BYTES, encode_batch
from storage.compression import GZIP, ZSTD, compress
from storage.record import Record, encode_varint
from tests.hostile.siege.attacker import frame, read
from tests.hostile.siege.siege import Siege, besieged

VERSION: Final = 9
PARTITIONS: Final = 100
TOPIC: Final = ("--topic", f"orders:{PARTITIONS}", "--topic", "payments:1")
PLAIN_BYTES: Final = 900_000
OF_SMALL: Final = 25


def batch_of(section: bytes, count: int, codec: int = ZSTD) -> bytes:
    """A batch of arbitrary bytes with a valid checksum."""
    head = bytearray(encode_batch([Record(-1, -1, b"k", b"v")])[:HEADER_BYTES])
    packed = compress(codec, section)
    struct.pack_into(">i", head, 8, HEADER_BYTES - 12 + len(packed))
    struct.pack_into(">h", head, 21, codec)
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">i", head, 57, count)
    batch = bytes(head) + packed
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def record_of(body: bytes, offset_delta: int = 0) -> bytes:
    """Return a record without key and value and with the headers `body`."""
    fields = b"\0\0" + encode_varint(offset_delta) + encode_varint(-1) + encode_varint(-1) + body
    return encode_varint(len(fields)) + fields


def headers(count: int) -> bytes:
    """Headers without a key or a value."""
    return encode_varint(count) + bytes((0, 1)) * count


def produce(*batches: bytes) -> bytes:
    parts = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [TopicProduceData(name="orders", partition_data=parts)]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics)
    return frame(request, VERSION)


async def errors(siege: Siege, data: bytes) -> list[int]:
    """What a produce is answered, partition by partition."""
    hostile = await siege.attacker.connect()
    await hostile.send(data)
    answered = read(ProduceResponse, VERSION, await hostile.answer())
    return [part.error_code for part in answered.responses[0].partition_responses]


async def test_a_record_with_a_hundred_million_headers(tmp_path: Path) -> None:
    data = produce(batch_of(record_of(headers(100_000_000)), 1))
    assert len(data) < 20_000
    async with besieged(tmp_path, TOPIC) as siege:
        await siege.begin()
        assert (await errors(siege, data))[0] in (ErrorCode.INVALID_RECORD, ErrorCode.RECORD_LIST_TOO_LARGE)
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_record_with_many_headers_that_just_fit(tmp_path: Path) -> None:
    data = produce(batch_of(record_of(headers(240_000)), 1))
    async with besieged(tmp_path, TOPIC) as siege:
        await siege.begin()
        assert await errors(siege, data) == [ErrorCode.NONE]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_twenty_batches_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    bomb = batch_of(bytes(60 * 1024 * 1024), 1)
    gzipped = batch_of(bytes(60 * 1024 * 1024), 1, GZIP)
    async with besieged(tmp_path, TOPIC) as siege:
        await siege.begin()
        refused = await errors(siege, produce(*[bomb] * 19, gzipped))
        assert set(refused) <= {ErrorCode.INVALID_RECORD, ErrorCode.RECORD_LIST_TOO_LARGE}
        assert refused[-1] == ErrorCode.RECORD_LIST_TOO_LARGE
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_quarter_of_a_million_records_in_a_small_batch_are_stored(tmp_path: Path) -> None:
    count = 250_000
    section = b"".join([record_of(b"\0", index) for index in range(count)])
    data = produce(batch_of(section, count))
    async with besieged(tmp_path, TOPIC) as siege:
        await siege.begin()
        assert await errors(siege, data) == [ErrorCode.NONE]
        assert await end_offset(siege, 0) == count
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_request_as_large_as_any_may_be_is_stored(tmp_path: Path) -> None:
    """A quarter of it is of the smallest records there are: millions, which take the daemon seconds."""
    count = PLAIN_BYTES // 9
    small = encode_batch([Record(-1, -1, None, b"", ())] * count)
    large = encode_batch([Record(-1, -1, None, bytes(PLAIN_BYTES))])
    data = produce(*[large] * (PARTITIONS - OF_SMALL), *[small] * OF_SMALL)
    assert len(data) > 80_000_000
    async with besieged(tmp_path, TOPIC) as siege:
        await siege.begin()
        assert await errors(siege, data) == [ErrorCode.NONE] * PARTITIONS
        assert await end_offset(siege, PARTITIONS - 1) == count
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_records_to_blame_are_found_without_all_of_them(tmp_path: Path) -> None:
    """Records of the year 1970, of which a thousand are named."""
    batch = encode_batch([Record(-1, 1, b"k", b"v")] * 90_000)
    options = (*TOPIC, "-o", "log.message.timestamp.before.max.ms=1000")
    async with besieged(tmp_path, options) as siege:
        await siege.begin()
        assert await errors(siege, produce(batch)) == [ErrorCode.INVALID_TIMESTAMP]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_requests_behind_one_that_takes_long_are_answered_after_it(tmp_path: Path) -> None:
    async with besieged(tmp_path, TOPIC) as siege:
        slow = produce(batch_of(record_of(headers(200_000)), 1))
        quick = produce(encode_batch([Record(-1, -1, b"k", b"v")]))
        client = await siege.attacker.connect()
        await client.send(slow + quick)
        offsets = []
        for _ in range(2):
            answered = read(ProduceResponse, VERSION, await client.answer())
            offsets.append(answered.responses[0].partition_responses[0].base_offset)
        assert offsets == [0, 1]


async def end_offset(siege: Siege, partition: int) -> int:
    parts = [ListOffsetsPartition(partition_index=partition, timestamp=-1)]
    topics = [ListOffsetsTopic(name="orders", partitions=parts)]
    client = await siege.attacker.connect()
    answered = await client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 2)
    return int(answered.topics[0].partitions[0].offset)
