"""OffsetFetch and OffsetCommit at the coordinator of a group."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.kafka_errors import error_from_code
from coordinator.cli.kafka_tools.offset_lookup import TopicPartition
from coordinator.cli.kafka_tools.tool_errors import KafkaError
from protocol.errors import ErrorCode

NO_OFFSET: Final = -1
_NO_GENERATION: Final = -1
_UNSTABLE: Final = (ErrorCode.UNSTABLE_OFFSET_COMMIT,)


class CommittedOffset(NamedTuple):
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int
    """-1: not known."""


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
        answer = client.ask_coordinator(group, request, _code_of_fetch)
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


def _code_of_fetch(answer: Any) -> int:
    return int(answer.groups[0].error_code if answer.groups else answer.error_code)


def commit_offsets(
    client: ClusterClient,
    group: str,
    offsets: Mapping[TopicPartition, int],
    generation: int = _NO_GENERATION,
    member_id: str = "",
) -> dict[TopicPartition, KafkaError]:
    """Commit offsets. In: the generation and the id of a member; none for a tool. Returns the errors by partition.
    Raises KafkaError.
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
    answer = client.ask_coordinator(group, request, _code_of_commit)
    return {
        (topic.name, each.partition_index): error_from_code(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code != ErrorCode.NONE
    }


def _code_of_commit(answer: Any) -> int:
    """Return the first partition's error: a group's error is on every partition."""
    return next(
        (int(each.error_code) for topic in answer.topics for each in topic.partitions), ErrorCode.NONE
    )


def _group_by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
