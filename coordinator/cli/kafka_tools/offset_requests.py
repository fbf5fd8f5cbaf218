"""Requests about offsets: ListOffsets to leaders, OffsetFetch and OffsetCommit to coordinators."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.tool_errors import KafkaError, error_from_code
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

TopicPartition = tuple[str, int]

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
UNKNOWN_OFFSET: Final = -1
_CONSUMER_REPLICA_ID: Final = -1
_TIMEOUT_MS: Final = 30_000
_LEADER_MOVED: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def list_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
) -> dict[TopicPartition, int | KafkaError]:
    """Return the offset, or the broker's error, of each partition in the given order. `timestamps` are in
    milliseconds, or LATEST and similar values. Raises KafkaError if a topic does not exist or no broker responds.
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
            answer = client.send_to_broker(leader, _make_request(wanted, isolation_level))
            for topic in answer.topics:
                for each in topic.partitions:
                    found[topic.name, each.partition_index] = _offset_or_error(each)
        return {partition: found[partition] for partition in timestamps}

    return client.retry(look_up, lambda error: error.error_code in _LEADER_MOVED)


def require_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
) -> dict[TopicPartition, int]:
    """Return the offsets as `list_offsets` does, but raise the error of any partition."""
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
        replica_id=_CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=_TIMEOUT_MS,
    )


def _offset_or_error(answer: Any) -> int | KafkaError:
    """Return the offset or the error of a partition. Raises KafkaError if the leader has moved: the caller looks
    it up again."""
    if answer.error_code == ErrorCode.NONE:
        return int(answer.offset)
    error = error_from_code(answer.error_code)
    if error.error_code in _LEADER_MOVED:
        raise error
    return error


NO_OFFSET: Final = -1
_NO_GENERATION: Final = -1
_UNSTABLE: Final = (ErrorCode.UNSTABLE_OFFSET_COMMIT,)


class CommittedOffset(NamedTuple):
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int
    """The leader epoch; -1 if unknown."""


def fetch_committed(
    client: ClusterClient, group: str, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Return the committed offsets of a group: of some partitions, or of all. Partitions without one are left out.
    Raises KafkaError.
    """
    from protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    wanted = OffsetFetchRequestGroup(group_id=group)
    request = OffsetFetchRequest(group_id=group, groups=[wanted], require_stable=True)
    if partitions is not None:
        by_topic = _group_by_topic(partitions).items()
        wanted.topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in by_topic
        ]
        request.topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in by_topic
        ]

    def fetch() -> dict[TopicPartition, CommittedOffset]:
        answer = client.send_to_coordinator(group, request, _read_fetch_error)
        found = answer.groups[0] if answer.groups else answer
        if found.error_code != ErrorCode.NONE:
            raise error_from_code(found.error_code)
        committed = {}
        for topic in found.topics:
            for each in topic.partitions:
                if each.error_code in _UNSTABLE:
                    raise error_from_code(each.error_code)
                if each.error_code == ErrorCode.NONE and each.committed_offset != NO_OFFSET:
                    place = topic.name, each.partition_index
                    committed[place] = CommittedOffset(each.committed_offset, each.committed_leader_epoch)
        return committed

    return client.retry(fetch, lambda error: error.error_code in _UNSTABLE)


def _read_fetch_error(answer: Any) -> int:
    return int(answer.groups[0].error_code if answer.groups else answer.error_code)


def commit_offsets(
    client: ClusterClient,
    group: str,
    offsets: Mapping[TopicPartition, int],
    generation: int = _NO_GENERATION,
    member_id: str = "",
) -> dict[TopicPartition, KafkaError]:
    """Commit offsets and return the errors by partition. The defaults of `generation` and `member_id` commit
    without membership. Raises KafkaError.
    """
    from protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = client.send_to_coordinator(group, request, _read_commit_error)
    return {
        (topic.name, each.partition_index): error_from_code(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code != ErrorCode.NONE
    }


def _read_commit_error(answer: Any) -> int:
    """Return the error of the first partition, because an error of the group is on every partition."""
    return next(
        (int(each.error_code) for topic in answer.topics for each in topic.partitions), ErrorCode.NONE
    )


def _group_by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
