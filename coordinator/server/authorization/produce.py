"""Produce: WRITE on the transactional id where a batch is of a transaction, then WRITE on each topic.

A transactional id alone is not looked at. A topic is refused before anybody looks at its batches, or whether it
exists; one by an id that is not known has no name that could be refused. A client that wants no answers sees its
connection closed. Source: Kafka's `KafkaApis.handleProduceRequest`.
"""

from typing import Final

from coordinator.answers import GOODBYE
from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.sift import sift
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_TOPIC_IDS_SINCE: Final = 13
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_ATTRIBUTES_AT: Final = 22
"""The byte of a batch's attributes that says whether it is of a transaction."""
_TRANSACTIONAL: Final = 0x10


def guard_produce(request: ProduceRequest, permits: Permits) -> Steps:
    """See the top of this file."""
    if any(map(_is_transactional, request.topic_data)):
        transactional_id = request.transactional_id
        if transactional_id is None or not permits.allows(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            if request.acks == 0:
                return Refused(GOODBYE)
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return Refused(
                ProduceResponse(responses=[_refused(topic, error) for topic in request.topic_data])
            )
    by_id = permits.api_version >= _TOPIC_IDS_SINCE

    def allows(asked: TopicProduceData) -> bool:
        name = permits.name_of(asked.topic_id) if by_id else asked.name
        return name is None or permits.allows_on_topic(Operation.WRITE, name)

    def refuse(asked: TopicProduceData) -> TopicProduceResponse:
        return _refused(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def finish(response: ProduceResponse) -> ProduceResponse:
        response.responses = response.responses + refused
        return response

    allowed, refused = yield from sift(request.topic_data, allows, refuse)
    if not refused:
        return PASS
    request.topic_data = allowed
    if request.acks == 0:
        return Pass(closes=True) if allowed else Refused(GOODBYE)
    return Pass(finish) if allowed else Refused(ProduceResponse(responses=refused))


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


def _refused(asked: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    parts = [
        PartitionProduceResponse(index=part.index, error_code=error, base_offset=-1)
        for part in asked.partition_data
    ]
    return TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
