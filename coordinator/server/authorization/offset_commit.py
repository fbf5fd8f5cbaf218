"""OffsetCommit and TxnOffsetCommit: the group, then its topics.

A topic that is refused is told so before anybody looks whether it exists; from the version that has ids on, one
whose id is not known has no name that could be refused. Source: Kafka's `KafkaApis.handleOffsetCommitRequest`,
`handleTxnOffsetCommitRequest`.
"""

from collections.abc import Callable
from typing import Any, Final

from coordinator.group.refusal import error_response
from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.failed_topics import failed_and_others, id_key, name_key, places_of
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_COMMIT_BY_ID_SINCE: Final = 10
_TXN_COMMIT_BY_ID_SINCE: Final = 6
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_commit(request: OffsetCommitRequest, permits: Permits) -> Refused | Steps:
    """READ on the group, then READ on each topic."""
    if not permits.allows(_READ, _GROUP, request.group_id):
        return _whole(request, permits, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = permits.api_version >= _COMMIT_BY_ID_SINCE
    return _sift(request, permits, by_id, _refused, OffsetCommitResponse)


def guard_txn_commit(request: TxnOffsetCommitRequest, permits: Permits) -> Refused | Steps:
    """WRITE on the transactional id, READ on the group, then READ on each topic."""
    if not permits.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _whole(request, permits, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not permits.allows(_READ, _GROUP, request.group_id):
        return _whole(request, permits, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = permits.api_version >= _TXN_COMMIT_BY_ID_SINCE
    return _sift(request, permits, by_id, _txn_refused, TxnOffsetCommitResponse)


def _whole(request: object, permits: Permits, error: ErrorCode) -> Refused:
    return Refused(error_response(request, permits.api_version, error))


def _sift(
    request: Any, permits: Permits, by_id: bool, refuse: Callable[[Any], Any], response_class: type[Any]
) -> Steps:
    """Takes the topics out of a commit that its client may not read."""
    key = id_key if by_id else name_key
    places = places_of(request.topics, key)
    refused: list[Any] = []
    allowed: list[Any] = []
    for topic in request.topics:
        name = permits.name_of(topic.topic_id) if by_id else topic.name
        if name is None or permits.allows_on_topic(_READ, name):
            allowed.append(topic)
        else:
            refused.append(refuse(topic))
        yield
    if not refused:
        return PASS

    def finish(response: Any) -> Any:
        failed, others = failed_and_others(refused, response.topics, places, key)
        merged: dict[object, Any] = {}
        for topic in (*failed, *others):
            first = merged.setdefault(key(topic), topic)
            if first is not topic:
                first.partitions += topic.partitions
        return response_class(topics=list(merged.values()))

    request.topics = allowed
    return Pass(finish) if allowed else Refused(finish(response_class(topics=[])))


def _refused(asked: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    parts = [
        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=_DENIED)
        for part in asked.partitions
    ]
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=parts)


def _txn_refused(asked: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
    parts = [
        TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=_DENIED)
        for part in asked.partitions
    ]
    return TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=parts)
