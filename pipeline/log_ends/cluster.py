"""Log ends from a live cluster, by ListOffsets.

The end of a log at an earlier time is the offset of the first message that is not older than that. Brokers
since 0.11 answer the versions used here. Source: KIP-79, KIP-107.

A snapshot asks for the topics and for `__consumer_offsets` in one request to each broker, so that a broker which
leads both answers for one instant.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pipeline.errors import BadInput
from pipeline.log_ends.connection import Connection
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.snapshot import Bounds, Snapshot
from pipeline.segments import TOPIC
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from storage.topic_partition import TopicPartition

SOURCE: Final = "bootstrap"
LATEST: Final = -1
EARLIEST: Final = -2

_METADATA_VERSION: Final = 4
_LIST_OFFSETS_VERSION: Final = 2
_CONSUMER: Final = -1

Address = tuple[str, int]


def parse_address(text: str) -> Address:
    """HOST:PORT, the first of a list; an IPv6 host may stand in brackets. Raises BadInput."""
    host, colon, port = text.split(",")[0].strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadInput(f"--bootstrap: {text} is not HOST:PORT")
    return host, int(port)


def snapshot_of_cluster(bootstrap: str) -> Snapshot:
    """All topics of a live cluster, with its offsets log as far as this client may describe that.

    Raises BadInput when a broker cannot be reached or does not answer.
    """
    starts: dict[TopicPartition, int] = {}
    latest: dict[TopicPartition, int] = {}
    leaders = _leaders(parse_address(bootstrap), None)
    connections = {address: Connection(*address) for address in leaders}
    try:
        for address, connection in connections.items():
            starts |= _offsets(connection, leaders[address], EARLIEST)
        instant_ms = int(time.time() * 1000)
        for address, connection in connections.items():
            latest |= _offsets(connection, leaders[address], LATEST)
    finally:
        for connection in connections.values():
            connection.close()
    return Snapshot(
        instant_ms,
        {one: Bounds(starts.get(one), end) for one, end in latest.items() if one.topic != TOPIC},
        {one.partition: end for one, end in latest.items() if one.topic == TOPIC},
    )


def ends_of_cluster(
    bootstrap: str, partitions: Collection[TopicPartition], period: Period, snapshot: Snapshot
) -> Iterator[LogEnd]:
    """For each of the partitions that the cluster has: its end at each step of the period, and at the instant of
    the snapshot. Where the snapshot has no end, the timestamps of messages tell it.

    Raises BadInput when a broker cannot be reached or does not answer.
    """
    for address, led in _leaders(parse_address(bootstrap), partitions).items():
        connection = Connection(*address)
        try:
            yield from _ends(connection, led, period, snapshot)
        finally:
            connection.close()


def _leaders(
    bootstrap: Address, partitions: Collection[TopicPartition] | None
) -> Mapping[Address, list[TopicPartition]]:
    """Return the partitions of each leader, by its address; None means all partitions. Deleted topics and
    partitions without a leader are omitted."""
    wanted = None if partitions is None else set(partitions)
    topics = (
        None
        if wanted is None
        else [MetadataRequestTopic(name=name) for name in sorted({topic for topic, _ in wanted})]
    )
    connection = Connection(*bootstrap)
    try:
        answer = connection.ask(
            ApiKey.METADATA,
            _METADATA_VERSION,
            MetadataRequest(topics=topics, allow_auto_topic_creation=False),
            MetadataResponse,
        )
    finally:
        connection.close()
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    leaders: dict[Address, list[TopicPartition]] = defaultdict(list)
    for topic in answer.topics:
        for partition in topic.partitions:
            found = TopicPartition(topic.name or "", partition.partition_index)
            if (wanted is None or found in wanted) and partition.leader_id in brokers:
                leaders[brokers[partition.leader_id]].append(found)
    return leaders


def _offsets(
    connection: Connection, partitions: list[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(ListOffsetsPartition(partition_index=partition, timestamp=time_ms))
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in by_topic.items()],
    )
    answer = connection.ask(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, request, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE
    }


def _ends(
    connection: Connection, partitions: list[TopicPartition], period: Period, snapshot: Snapshot
) -> Iterator[LogEnd]:
    instant_ms = snapshot.instant_ms
    known = {one: snapshot.topics[one] for one in partitions if one in snapshot.topics}
    starts: dict[TopicPartition, int | None] = {
        **_offsets(connection, partitions, EARLIEST),
        **{one: bounds.start for one, bounds in known.items()},
    }
    newest = _offsets(connection, partitions, LATEST)
    ends = {
        one: found if found >= 0 else newest[one]
        for one, found in _offsets(connection, partitions, instant_ms + 1).items()
        if one in newest
    } | {one: bounds.end for one, bounds in known.items()}
    before: dict[TopicPartition, int] = {}
    for time_ms in period.ends_ms():
        for partition, found in _offsets(connection, partitions, time_ms).items():
            # Without a message so late, the log ended then where it ends now.
            end = ends.get(partition, -1)
            offset = min(found, end) if found >= 0 else end
            if offset >= 0 and before.get(partition) != offset:
                before[partition] = offset
                yield LogEnd(*partition, time_ms - 1, starts.get(partition), offset, SOURCE)
    for partition, offset in ends.items():
        yield LogEnd(*partition, instant_ms, starts.get(partition), offset, SOURCE)
