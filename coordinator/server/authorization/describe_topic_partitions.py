"""DescribeTopicPartitions: DESCRIBE on each topic.

Refused topics come after the others; of all topics they are missing. What the client may do to a topic is always
told. Source: Kafka's `DescribeTopicPartitionsRequestHandler`.
"""

from typing import Final

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from coordinator.topics.authorized_operations import NOT_ASKED
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_describe_topic_partitions(request: DescribeTopicPartitionsRequest, permits: Permits) -> Steps:
    """A cursor at a topic that is not shown is one at the next that is."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    names = {topic.name for topic in (permits.catalogue if is_all else request.topics)}
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        return PASS  # and refused there
    allowed: list[str] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(name for name in names if name >= first):
        if permits.allows_on_topic(Operation.DESCRIBE, name):
            allowed.append(name)
        elif not is_all:
            refused.append(_refused(name))
        yield

    def finish(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.topic_authorized_operations != NOT_ASKED and topic.name is not None:
                topic.topic_authorized_operations = permits.operations(ResourceType.TOPIC, topic.name)
        response.topics = response.topics + refused
        return response

    if not allowed:
        return Refused(DescribeTopicPartitionsResponse(topics=refused))
    request.topics = [TopicRequest(name=name) for name in allowed]
    if cursor is not None and first != allowed[0]:
        request.cursor = Cursor(topic_name=allowed[0], partition_index=0)
    return Pass(finish)


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=_DENIED, name=name, topic_id=ZERO_UUID, partitions=[]
    )
