"""Guards of APIs about the records and offsets of partitions: Produce, Fetch, ListOffsets,
OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, OffsetDelete. Each needs a right on the topic;
OffsetDelete first needs DELETE on the group.

A denied topic is removed from the request before it is looked up. In the response it follows the others,
except in DescribeProducers (order of the request) and OffsetDelete (failed topics first).
Produce needs WRITE on the transactional id when it contains a transactional batch, and on each topic; a
transactional id without such a batch is not checked. A topic is denied before its batches are read. A topic
with an unknown id has no name to deny. With acks=0 a denial closes the connection.
Fetch needs READ on each topic, whenever it is fetched. Only the data plane knows the topics of a fetch
session, so it calls the guard back, once for each topic in a request.
Source: Kafka's `KafkaApis`, `KafkaApis.handleProduceRequest`, `handleFetchRequest`.
"""

from functools import partial
from typing import Final

from coordinator.apis.auth_helper import (
    PASS,
    AuthHelper,
    AuthorizationDenied,
    GuardPassed,
    GuardResult,
    partition_by_authorized,
)
from coordinator.apis.offset_guards import find_positions, name_key, split_failed_topics
from coordinator.core.response_status import CLOSE_CONNECTION
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.topics.topic_authorization import TopicRights
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    DescribeProducersTopicResponse,
)
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TOPIC_IDS_SINCE: Final = 13
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_ATTRIBUTES_AT: Final = 22
"""The byte of a batch's attributes that says whether it is of a transaction."""
_TRANSACTIONAL: Final = 0x10


async def guard_produce(request: ProduceRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """WRITE on the transactional id of a transactional batch, then WRITE on each topic."""
    if any(map(_is_transactional, request.topic_data)):
        transactional_id = request.transactional_id
        if transactional_id is None or not helper.allows(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            if request.acks == 0:
                return AuthorizationDenied(CLOSE_CONNECTION)
            return helper.deny_request(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    by_id = helper.api_version >= _TOPIC_IDS_SINCE

    def allows(topic: TopicProduceData) -> bool:
        name = helper.find_topic_name(topic.topic_id) if by_id else topic.name
        return name is None or helper.allows_on_topic(AclOperation.WRITE, name)

    def refuse(topic: TopicProduceData) -> TopicProduceResponse:
        return helper.build_denied_entry(TopicProduceResponse, topic, _DENIED)

    def finish(response: ProduceResponse) -> ProduceResponse:
        response.responses = response.responses + refused
        return response

    allowed, refused = await partition_by_authorized(request.topic_data, allows, refuse, budget)
    if by_id:
        # An id that was unknown in its step may be known by now.
        refused += [refuse(topic) for topic in allowed if not allows(topic)]
        allowed = [topic for topic in allowed if allows(topic)]
    if not refused:
        return PASS
    request.topic_data = allowed
    if request.acks == 0:
        return GuardPassed(closes=True) if allowed else AuthorizationDenied(CLOSE_CONNECTION)
    return GuardPassed(finish) if allowed else AuthorizationDenied(ProduceResponse(responses=refused))


def _is_transactional(topic: TopicProduceData) -> bool:
    """Whether the first batch of a partition is of a transaction: as in Kafka, no other is looked at."""
    for part in topic.partition_data:
        records = part.records
        if (
            records is not None
            and len(records) > _ATTRIBUTES_AT
            and records[_MAGIC_AT] == _MAGIC
            and records[_ATTRIBUTES_AT] & _TRANSACTIONAL
        ):
            return True
    return False


def guard_fetch(request: FetchRequest, helper: AuthHelper) -> GuardResult:
    """What comes from another broker, or says so, needs CLUSTER_ACTION instead."""
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        may_read_all = helper.allows_on_cluster(AclOperation.CLUSTER_ACTION)
        return GuardPassed(arguments=(TopicRights(may_read=lambda _: may_read_all),))
    return GuardPassed(arguments=(TopicRights(may_read=partial(helper.allows_on_topic, AclOperation.READ)),))


async def guard_list_offsets(request: ListOffsetsRequest, helper: AuthHelper, budget: Budget) -> GuardResult:
    """DESCRIBE."""

    def allows(topic: ListOffsetsTopic) -> bool:
        return helper.allows_on_topic(AclOperation.DESCRIBE, topic.name)

    def refuse(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        return helper.build_denied_entry(ListOffsetsTopicResponse, topic, _DENIED)

    def finish(response: ListOffsetsResponse) -> ListOffsetsResponse:
        return ListOffsetsResponse(topics=response.topics + refused)

    request.topics, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    return GuardPassed(finish) if refused else PASS


async def guard_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """CLUSTER_ACTION covers all; else DESCRIBE."""
    if helper.allows_on_cluster(AclOperation.CLUSTER_ACTION, logs_denied=False):
        return PASS

    def allows(topic: OffsetForLeaderTopic) -> bool:
        return helper.allows_on_topic(AclOperation.DESCRIBE, topic.topic)

    def refuse(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
        return helper.build_denied_entry(OffsetForLeaderTopicResult, topic, _DENIED)

    def finish(response: OffsetForLeaderEpochResponse) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(topics=response.topics + refused)

    request.topics, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    return GuardPassed(finish) if refused else PASS


async def guard_delete_records(
    request: DeleteRecordsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DELETE."""

    def allows(topic: DeleteRecordsTopic) -> bool:
        return helper.allows_on_topic(AclOperation.DELETE, topic.name)

    def refuse(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
        return helper.build_denied_entry(DeleteRecordsTopicResult, topic, _DENIED)

    def finish(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(topics=response.topics + refused)

    request.topics, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    return GuardPassed(finish) if refused else PASS


async def guard_describe_producers(
    request: DescribeProducersRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """READ; the order is that of the request."""

    def allows(topic: DescribeProducersTopicRequest) -> bool:
        return helper.allows_on_topic(AclOperation.READ, topic.name)

    def refuse(topic: DescribeProducersTopicRequest) -> DescribeProducersTopicResponse:
        return helper.build_denied_entry(DescribeProducersTopicResponse, topic, _DENIED, _DENIED.message)

    def finish(response: DescribeProducersResponse) -> DescribeProducersResponse:
        by_name = {topic.name: topic for topic in (*response.topics, *refused)}
        return DescribeProducersResponse(topics=[by_name[name] for name in order if name in by_name])

    order = list(dict.fromkeys(topic.name for topic in request.topics))
    request.topics, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    return GuardPassed(finish) if refused else PASS


async def guard_offset_delete(
    request: OffsetDeleteRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DELETE on the group, then READ on each topic; what fails before comes first. The group is asked in any case:
    its error wins."""
    if not helper.allows(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return helper.deny_request(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def allows(topic: OffsetDeleteRequestTopic) -> bool:
        return helper.allows_on_topic(AclOperation.READ, topic.name)

    def refuse(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
        return helper.build_denied_entry(OffsetDeleteResponseTopic, topic, _DENIED)

    def finish(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            failed, others = split_failed_topics(refused, response.topics, positions, name_key)
            response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=failed + others)
        return response

    positions = find_positions(request.topics, name_key)
    request.topics, refused = await partition_by_authorized(request.topics, allows, refuse, budget)
    return GuardPassed(finish) if refused else PASS
