"""What producers ask: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. And what others ask of their
transactions: DescribeTransactions, ListTransactions. Source: Kafka's `KafkaApis`.
"""

from typing import Final

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps, Verdict
from coordinator.topics.topic_name import is_internal
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
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
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_BATCHES_SINCE: Final = 4
"""The version of AddPartitionsToTxn that brokers send."""


def _may_write(permits: Permits, transactional_id: str) -> bool:
    return permits.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def guard_init_producer_id(request: InitProducerIdRequest, permits: Permits) -> Verdict:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic."""
    if request.transactional_id is not None:
        if _may_write(permits, request.transactional_id):
            return PASS
        error = _DENIED
    else:
        if permits.may_write_any_topic() or permits.allows_on_cluster(Operation.IDEMPOTENT_WRITE):
            return PASS
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return Refused(InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))


def guard_end_txn(request: EndTxnRequest, permits: Permits) -> Verdict:
    """WRITE on the transactional id."""
    return (
        PASS if _may_write(permits, request.transactional_id) else Refused(EndTxnResponse(error_code=_DENIED))
    )


def guard_add_offsets(request: AddOffsetsToTxnRequest, permits: Permits) -> Verdict:
    """WRITE on the transactional id, then READ on the group."""
    if not _may_write(permits, request.transactional_id):
        return Refused(AddOffsetsToTxnResponse(error_code=_DENIED))
    if not permits.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return Refused(AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return PASS


def guard_add_partitions(request: AddPartitionsToTxnRequest, permits: Permits) -> Steps:
    """WRITE on the transactional id, then WRITE on each topic: if one is refused, none is added. What brokers send,
    several transactions in one, needs CLUSTER_ACTION."""
    if permits.api_version >= _BATCHES_SINCE:
        if permits.allows_on_cluster(Operation.CLUSTER_ACTION):
            return PASS
        return Refused(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    topics = request.v3_and_below_topics
    if not _may_write(permits, request.v3_and_below_transactional_id):
        return _not_added([_added(topic, dict.fromkeys(topic.partitions, _DENIED)) for topic in topics])
    is_refused = False
    for topic in topics:
        if not is_internal(topic.name) and not permits.allows_on_topic(Operation.WRITE, topic.name):
            is_refused = True
        yield
    if not is_refused:
        return PASS
    return _not_added([_added(topic, _why_not_added(topic, permits)) for topic in topics])


def _why_not_added(topic: AddPartitionsToTxnTopic, permits: Permits) -> dict[int, ErrorCode]:
    """What is said of the partitions of a topic where some topic is refused."""
    if is_internal(topic.name) or not permits.allows_on_topic(Operation.WRITE, topic.name):
        return dict.fromkeys(topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = permits.catalogue.get(topic.name)
    count = 0 if found is None else len(found.partitions)
    return {
        number: (
            ErrorCode.OPERATION_NOT_ATTEMPTED if 0 <= number < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        for number in topic.partitions
    }


def _not_added(results: list[AddPartitionsToTxnTopicResult]) -> Refused:
    return Refused(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _added(topic: AddPartitionsToTxnTopic, errors: dict[int, ErrorCode]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=errors[number])
            for number in topic.partitions
        ],
    )


def guard_describe(request: DescribeTransactionsRequest, permits: Permits) -> Steps:
    """DESCRIBE on each transactional id, in the order of the request; topics that the client may not describe are
    missing."""
    answers: list[DescribeTransactionsTransactionState | None] = []
    allowed: list[str] = []
    for transactional_id in request.transactional_ids:
        if permits.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            allowed.append(transactional_id)
            answers.append(None)
        else:
            answers.append(_not_described(transactional_id))
        yield

    def finish(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [
                topic for topic in state.topics if permits.allows_on_topic(Operation.DESCRIBE, topic.topic)
            ]
        found = iter(response.transaction_states)
        return DescribeTransactionsResponse(transaction_states=[answer or next(found) for answer in answers])

    request.transactional_ids = allowed
    return Pass(finish)


def _not_described(transactional_id: str) -> DescribeTransactionsTransactionState:
    return DescribeTransactionsTransactionState(
        error_code=_DENIED,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def guard_list(request: ListTransactionsRequest, permits: Permits) -> Verdict:
    """DESCRIBE on each transactional id: the refused are missing."""

    def finish(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if permits.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id)
        ]
        return response

    return Pass(finish)
