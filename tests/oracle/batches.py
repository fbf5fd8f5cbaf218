"""Record batches to send, whole and broken, and the requests that carry them."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

from crc32c import crc32c

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.oracle.play import Topic

TIME_MS: Final = 1_700_000_000_000
"""The time of the first record of every batch."""
_CRC_AT: Final = 17
_CRC_FROM: Final = 21


def batch(
    count: int = 1, *, key: bytes | None = b"k", value: bytes = b"v", time_ms: int = TIME_MS, **fields: Any
) -> bytes:
    """`count` records, a millisecond apart."""
    records = [Record(row, time_ms + row, key, value) for row in range(count)]
    return encode_batch(records, **fields)


def patched(data: bytes, position: int, new: bytes) -> bytes:
    """A batch with other bytes at a position, and the checksum that belongs to them."""
    data = data[:position] + new + data[position + len(new) :]
    return data[:_CRC_AT] + struct.pack(">I", crc32c(data[_CRC_FROM:])) + data[_CRC_FROM:]


def old_message(magic: int) -> bytes:
    """One message of the formats before v2."""
    time = struct.pack(">q", TIME_MS) if magic else b""
    body = bytes([magic, 0]) + time + struct.pack(">i", 1) + b"k" + struct.pack(">i", 1) + b"v"
    content = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(content)) + content


Records = Sequence[tuple[Topic | str, int, bytes | None]]


def _name(topic: Topic | str) -> str:
    return topic.name if isinstance(topic, Topic) else topic


def _id(topic: Topic | str) -> bytes:
    return topic.id if isinstance(topic, Topic) else bytes(16)


def produce_request(
    *records: tuple[Topic | str, int, bytes | None], acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    """Build a request with one entry per topic, partition and batch, grouped by topic."""
    topics: dict[Topic | str, TopicProduceData] = {}
    for topic, partition, data in records:
        entry = TopicProduceData(name=_name(topic), topic_id=_id(topic), partition_data=[])
        partitions = topics.setdefault(topic, entry).partition_data
        partitions.append(PartitionProduceData(index=partition, records=data))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=list(topics.values())
    )


def fetch_request(
    *places: tuple[Topic | str, int, int],
    wait_ms: int = 50,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[Topic | str, int]] = (),
    epochs: tuple[int, int] = (-1, -1),
) -> FetchRequest:
    """Build a request with one entry per topic, partition and offset.

    `session` is (id, epoch). `epochs` are the current leader epoch and the last fetched epoch of every partition.
    """
    topics: dict[Topic | str, FetchTopic] = {}
    for topic, partition, offset in places:
        entry = FetchTopic(topic=_name(topic), topic_id=_id(topic), partitions=[])
        topics.setdefault(topic, entry).partitions.append(
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=epochs[0],
                last_fetched_epoch=epochs[1],
            )
        )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics.values()),
        forgotten_topics_data=[
            ForgottenTopic(topic=_name(topic), topic_id=_id(topic), partitions=[partition])
            for topic, partition in forgotten
        ],
    )
