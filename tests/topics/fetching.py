"""A consumer's fetches."""

from collections.abc import Sequence

from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from storage.batch import decode_records, walk_batches
from storage.record import Record

FOREVER_MS = 10**6
Where = tuple[str, int]


def fetch_request(
    wanted: dict[Where, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition_max_bytes: int = 2**20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forget: Sequence[Where] = (),
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """A request by topic name: offsets by topic and partition; the session's id and epoch."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                ],
            )
            for (topic, partition), offset in wanted.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, partitions=[partition]) for topic, partition in forget
        ],
    )


def by_partition(response: FetchResponse) -> dict[Where, PartitionData]:
    """The response of each partition."""
    return {
        (topic.topic, data.partition_index): data for topic in response.responses for data in topic.partitions
    }


def records(data: PartitionData) -> list[Record]:
    """The records that came for one partition."""
    buffer = data.records or b""
    return [
        record
        for position, header in walk_batches(buffer)
        for record in decode_records(buffer[position:], header)
    ]


def offsets(data: PartitionData) -> list[int]:
    """Their offsets."""
    return [record.offset for record in records(data)]
