"""ListOffsets at the leaders of partitions."""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.kafka_errors import error_from_code
from coordinator.cli.kafka_tools.tool_errors import KafkaError
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

TopicPartition = tuple[str, int]

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
UNKNOWN_OFFSET: Final = -1
_CONSUMER: Final = -1
_TIMEOUT_MS: Final = 30_000
_MOVED: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def list_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
) -> dict[TopicPartition, int | KafkaError]:
    """Return for each partition, in the given order, its offset or the broker's error. In: timestamps in
    milliseconds, or LATEST and its like. Raises KafkaError where a topic does not exist or no broker answers.
    """

    def look_up() -> dict[TopicPartition, int | KafkaError]:
        found: dict[TopicPartition, int | KafkaError] = {}
        leaders = client.fetch_leaders(sorted({topic for topic, _ in timestamps}))
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in timestamps.items():
            if partition in leaders:
                by_leader.setdefault(leaders[partition], {})[partition] = timestamp
            else:
                found[partition] = error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for leader, wanted in by_leader.items():
            answer = client.ask_broker(leader, _make_request(wanted, isolation_level))
            for topic in answer.topics:
                for each in topic.partitions:
                    found[topic.name, each.partition_index] = _offset_or_error(each)
        return {partition: found[partition] for partition in timestamps}

    return client.retry(look_up, lambda error: error.error_code in _MOVED)


def require_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
) -> dict[TopicPartition, int]:
    """As `list_offsets`. Raises the error of any partition."""
    offsets: dict[TopicPartition, int] = {}
    for partition, offset in list_offsets(client, timestamps, isolation_level).items():
        if isinstance(offset, KafkaError):
            raise offset
        offsets[partition] = offset
    return offsets


def _make_request(timestamps: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=_TIMEOUT_MS,
    )


def _offset_or_error(answer: Any) -> int | KafkaError:
    """Raises KafkaError where the leader has moved: it is to be looked up anew."""
    if answer.error_code == ErrorCode.NONE:
        return int(answer.offset)
    error = error_from_code(answer.error_code)
    if error.error_code in _MOVED:
        raise error
    return error
