"""CreateTopics, CreatePartitions, DeleteTopics.

What is wrong with the request itself is told first, and left to who answers it. Source: Kafka's `ControllerApis`.
"""

from collections import Counter
from functools import partial
from typing import Final

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.sift import sift
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps, Verdict
from coordinator.topics.topic_rights import TopicRights
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_create(request: CreateTopicsRequest, permits: Permits) -> Steps:
    """CREATE on the cluster covers all; else CREATE on each topic; the refused come last. What was created is
    described to who may describe its configs."""
    counts = Counter(topic.name for topic in request.topics)
    covers = permits.allows_on_cluster(Operation.CREATE, logs_denied=False)

    def allows(asked: CreatableTopic) -> bool:
        if counts[asked.name] > 1:
            return True  # which is what it is refused for
        permits.allows_on_topic(Operation.DESCRIBE_CONFIGS, asked.name, is_silent=True)
        return covers or permits.allows_on_topic(Operation.CREATE, asked.name)

    def refuse(asked: CreatableTopic) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=asked.name, error_code=_DENIED, error_message="Authorization failed.", configs=[]
        )

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            is_made = topic.error_code == ErrorCode.NONE
            if is_made and not permits.allows_on_topic(
                Operation.DESCRIBE_CONFIGS, topic.name, is_silent=True
            ):
                topic.topic_config_error_code = _DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        return CreateTopicsResponse(topics=response.topics + refused)

    allowed, refused = yield from sift(request.topics, allows, refuse)
    request.topics = allowed
    return Pass(finish) if allowed or not refused else Refused(CreateTopicsResponse(topics=refused))


def guard_create_partitions(request: CreatePartitionsRequest, permits: Permits) -> Steps:
    """ALTER on each topic; the refused come first."""
    counts = Counter(topic.name for topic in request.topics)

    def allows(asked: CreatePartitionsTopic) -> bool:
        return counts[asked.name] > 1 or permits.allows_on_topic(Operation.ALTER, asked.name)

    def refuse(asked: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(name=asked.name, error_code=_DENIED)

    def finish(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=refused + response.results)

    allowed, refused = yield from sift(request.topics, allows, refuse)
    if not refused:
        return PASS
    request.topics = allowed
    return Pass(finish) if allowed else Refused(CreatePartitionsResponse(results=refused))


def guard_delete(request: DeleteTopicsRequest, permits: Permits) -> Verdict:
    """DELETE on the cluster covers all. Otherwise the data plane checks the rights on each topic, because whether a
    topic exists decides which right counts: a name needs DESCRIBE before it is looked up, and DELETE afterwards."""
    if permits.allows_on_cluster(Operation.DELETE, logs_denied=False):
        return PASS
    return Pass(
        arguments=(
            TopicRights(
                may_describe=partial(permits.allows_on_topic, Operation.DESCRIBE),
                may_delete=partial(permits.allows_on_topic, Operation.DELETE),
            ),
        )
    )
