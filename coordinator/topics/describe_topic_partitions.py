"""DescribeTopicPartitions: topics and partitions in order of name, a page at a time.

Source: KIP-966, Kafka's `DescribeTopicPartitionsRequestHandler`.
"""

from collections.abc import Sequence

from coordinator.cluster.ownership import Ownership
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.authorized_operations import NOT_ASKED, ON_TOPIC
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.leader_epoch import current_epoch
from coordinator.topics.leadership import NO_LEADER, leadership
from coordinator.topics.partition import Partition
from coordinator.topics.topic import Topic
from coordinator.topics.topic_name import why_illegal
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def answer_describe_topic_partitions(
    plane: DataPlane, request: DescribeTopicPartitionsRequest, context: Context, now: Now
) -> Steps:
    """One page: no topics asked for means all; a cursor continues at its topic and partition.

    A cursor that makes no sense (a topic that was not asked for, a negative partition) is answered for each
    topic with INVALID_REQUEST.
    """
    catalogue, config = plane.catalogue, plane.config
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    asked = [topic.name for topic in catalogue] if is_all else [topic.name for topic in request.topics]
    names = sorted({name for name in asked if name >= first})
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        topics = []
        for asked_topic in request.topics:
            topics.append(_without_partitions(asked_topic.name, ErrorCode.INVALID_REQUEST, NOT_ASKED))
            yield None
        return Answer(DescribeTopicPartitionsResponse(topics=topics))
    left = max(1, min(config.max_request_partition_size_limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        yield None
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = catalogue.get(name)
        if topic is None:
            illegal = why_illegal(name) is not None
            error = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(_without_partitions(name, error))
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        page = topic.partitions[start : start + left]
        response.topics.append(_topic(topic, page, plane.ownership))
        left -= len(page)
        if start + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=start + len(page))
            break
    return Answer(response)


def _without_partitions(
    name: str, error: ErrorCode, operations: int = ON_TOPIC
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _topic(
    topic: Topic, page: Sequence[Partition], ownership: Ownership
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, ownership) for partition in page],
        topic_authorized_operations=ON_TOPIC,
    )


def _partition(partition: Partition, ownership: Ownership) -> DescribeTopicPartitionsResponsePartition:
    leader_id, replicas, in_sync, offline = leadership(partition, ownership)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=leader_id,
        leader_epoch=current_epoch(partition, ownership),
        replica_nodes=replicas,
        isr_nodes=in_sync,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )
