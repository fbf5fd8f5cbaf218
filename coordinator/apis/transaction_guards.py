"""What producers ask: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. And what others ask of their
transactions: DescribeTransactions, ListTransactions. Source: Kafka's `KafkaApis`.
"""

from typing import Final

from coordinator.apis.auth_helper import (
    PASS,
    AuthHelper,
    AuthorizationDenied,
    GuardPassed,
    GuardResult,
)
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.topics.topic_name import is_internal
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_BATCHES_SINCE: Final = 4
"""The version of AddPartitionsToTxn that brokers send."""


def _may_write(helper: AuthHelper, transactional_id: str) -> bool:
    return helper.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def guard_init_producer_id(request: InitProducerIdRequest, helper: AuthHelper) -> GuardResult:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic."""
    if request.transactional_id is not None:
        if _may_write(helper, request.transactional_id):
            return PASS
        error = _DENIED
    else:
        if helper.may_write_any_topic() or helper.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE):
            return PASS
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return helper.deny_request(request, error)


def guard_end_txn(request: EndTxnRequest, helper: AuthHelper) -> GuardResult:
    """WRITE on the transactional id."""
    return PASS if _may_write(helper, request.transactional_id) else helper.deny_request(request, _DENIED)


def guard_add_offsets_to_txn(request: AddOffsetsToTxnRequest, helper: AuthHelper) -> GuardResult:
    """WRITE on the transactional id, then READ on the group."""
    if not _may_write(helper, request.transactional_id):
        return helper.deny_request(request, _DENIED)
    if not helper.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return helper.deny_request(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return PASS


async def guard_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """WRITE on the transactional id, then WRITE on each topic: if one is refused, none is added. What brokers send,
    several transactions in one, needs CLUSTER_ACTION."""
    if helper.api_version >= _BATCHES_SINCE:
        if helper.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return PASS
        return helper.deny_request(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not _may_write(helper, request.v3_and_below_transactional_id):
        return helper.deny_request(request, _DENIED)
    is_refused = False
    for topic in topics:
        if not is_internal(topic.name) and not helper.allows_on_topic(AclOperation.WRITE, topic.name):
            is_refused = True
        await budget.checkpoint()
    if not is_refused:
        return PASS
    results = [_create_topic_result(topic, _why_not_added(topic, helper)) for topic in topics]
    return AuthorizationDenied(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _why_not_added(topic: AddPartitionsToTxnTopic, helper: AuthHelper) -> dict[int, ErrorCode]:
    """What is said of the partitions of a topic where some topic is refused."""
    if is_internal(topic.name) or not helper.allows_on_topic(AclOperation.WRITE, topic.name):
        return dict.fromkeys(topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = helper.catalogue.find_topic(topic.name)
    count = 0 if found is None else len(found.partitions)
    return {
        number: (
            ErrorCode.OPERATION_NOT_ATTEMPTED if 0 <= number < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        for number in topic.partitions
    }


def _create_topic_result(
    topic: AddPartitionsToTxnTopic, errors: dict[int, ErrorCode]
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=errors[number])
            for number in topic.partitions
        ],
    )


async def guard_describe_transactions(
    request: DescribeTransactionsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DESCRIBE on each transactional id, in the order of the request; topics that the client may not describe are
    missing."""
    answers: list[DescribeTransactionsTransactionState | None] = []
    allowed: list[str] = []
    for transactional_id in request.transactional_ids:
        if helper.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            allowed.append(transactional_id)
            answers.append(None)
        else:
            answers.append(
                helper.build_denied_entry(DescribeTransactionsTransactionState, transactional_id, _DENIED)
            )
        await budget.checkpoint()

    def finish(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [
                topic for topic in state.topics if helper.allows_on_topic(AclOperation.DESCRIBE, topic.topic)
            ]
        found = iter(response.transaction_states)
        return DescribeTransactionsResponse(transaction_states=[answer or next(found) for answer in answers])

    request.transactional_ids = allowed
    return GuardPassed(finish)


def guard_list_transactions(request: ListTransactionsRequest, helper: AuthHelper) -> GuardResult:
    """DESCRIBE on each transactional id: the refused are missing."""

    def finish(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if helper.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id)
        ]
        return response

    return GuardPassed(finish)
