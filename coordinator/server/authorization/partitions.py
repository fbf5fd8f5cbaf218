"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, OffsetDelete: a right on each topic.

What is refused is taken out before anybody looks whether it exists. Its answer comes after the others, but where
the order is told. Source: Kafka's `KafkaApis`.
"""

from typing import Final

from coordinator.group.refusal import error_response
from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.failed_topics import failed_and_others, name_key, places_of
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.sift import sift
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    DescribeProducersTopicResponse,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_list_offsets(request: ListOffsetsRequest, permits: Permits) -> Steps:
    """DESCRIBE."""

    def allows(asked: ListOffsetsTopic) -> bool:
        return permits.allows_on_topic(Operation.DESCRIBE, asked.name)

    def refuse(asked: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        parts = [
            ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=_DENIED)
            for part in asked.partitions
        ]
        return ListOffsetsTopicResponse(name=asked.name, partitions=parts)

    def finish(response: ListOffsetsResponse) -> ListOffsetsResponse:
        return ListOffsetsResponse(topics=response.topics + refused)

    request.topics, refused = yield from sift(request.topics, allows, refuse)
    return Pass(finish) if refused else PASS


def guard_leader_epoch(request: OffsetForLeaderEpochRequest, permits: Permits) -> Steps:
    """CLUSTER_ACTION covers all; else DESCRIBE."""
    if permits.allows_on_cluster(Operation.CLUSTER_ACTION, logs_denied=False):
        return PASS

    def allows(asked: OffsetForLeaderTopic) -> bool:
        return permits.allows_on_topic(Operation.DESCRIBE, asked.topic)

    def refuse(asked: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
        parts = [EpochEndOffset(partition=part.partition, error_code=_DENIED) for part in asked.partitions]
        return OffsetForLeaderTopicResult(topic=asked.topic, partitions=parts)

    def finish(response: OffsetForLeaderEpochResponse) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(topics=response.topics + refused)

    request.topics, refused = yield from sift(request.topics, allows, refuse)
    return Pass(finish) if refused else PASS


def guard_delete_records(request: DeleteRecordsRequest, permits: Permits) -> Steps:
    """DELETE."""

    def allows(asked: DeleteRecordsTopic) -> bool:
        return permits.allows_on_topic(Operation.DELETE, asked.name)

    def refuse(asked: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
        parts = [
            DeleteRecordsPartitionResult(
                partition_index=part.partition_index, low_watermark=-1, error_code=_DENIED
            )
            for part in asked.partitions
        ]
        return DeleteRecordsTopicResult(name=asked.name, partitions=parts)

    def finish(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(topics=response.topics + refused)

    request.topics, refused = yield from sift(request.topics, allows, refuse)
    return Pass(finish) if refused else PASS


def guard_describe_producers(request: DescribeProducersRequest, permits: Permits) -> Steps:
    """READ; the order is that of the request."""

    def allows(asked: DescribeProducersTopicRequest) -> bool:
        return permits.allows_on_topic(Operation.READ, asked.name)

    def refuse(asked: DescribeProducersTopicRequest) -> DescribeProducersTopicResponse:
        parts = [
            DescribeProducersPartitionResponse(
                partition_index=index, error_code=_DENIED, error_message=_DENIED.message, active_producers=[]
            )
            for index in asked.partition_indexes
        ]
        return DescribeProducersTopicResponse(name=asked.name, partitions=parts)

    def finish(response: DescribeProducersResponse) -> DescribeProducersResponse:
        by_name = {topic.name: topic for topic in (*response.topics, *refused)}
        return DescribeProducersResponse(topics=[by_name[name] for name in order if name in by_name])

    order = list(dict.fromkeys(topic.name for topic in request.topics))
    request.topics, refused = yield from sift(request.topics, allows, refuse)
    return Pass(finish) if refused else PASS


def guard_offset_delete(request: OffsetDeleteRequest, permits: Permits) -> Steps:
    """DELETE on the group, then READ on each topic; what fails before comes first. The group is asked in any case:
    its error wins."""
    if not permits.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return Refused(error_response(request, permits.api_version, error))

    def allows(asked: OffsetDeleteRequestTopic) -> bool:
        return permits.allows_on_topic(Operation.READ, asked.name)

    def refuse(asked: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
        parts = [
            OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=_DENIED)
            for part in asked.partitions
        ]
        return OffsetDeleteResponseTopic(name=asked.name, partitions=parts)

    def finish(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            failed, others = failed_and_others(refused, response.topics, places, name_key)
            response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=failed + others)
        return response

    places = places_of(request.topics, name_key)
    request.topics, refused = yield from sift(request.topics, allows, refuse)
    return Pass(finish) if refused else PASS
