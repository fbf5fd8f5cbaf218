"""CreateTopics, CreatePartitions, DeleteTopics.

What is wrong with the request itself is told first, and left to who answers it. Source: Kafka's `ControllerApis`.
"""

from collections import Counter
from typing import Final

from coordinator.security.acl import Operation
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.sift import sift
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from coordinator.server.authorization.words import WORDS
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
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
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_BY_ID_SINCE: Final = 6
"""The version of DeleteTopics in which topics may have ids."""


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


def guard_delete(request: DeleteTopicsRequest, permits: Permits) -> Steps:
    """DELETE on the cluster covers all; else DELETE on each topic; the refused come first. Who may not describe a
    topic is not told the name that an id stands for."""
    if permits.allows_on_cluster(Operation.DELETE, logs_denied=False):
        return PASS
    by_state = permits.api_version >= _BY_ID_SINCE
    names = request.topic_names if not by_state else [topic.name for topic in request.topics]
    counts = Counter(names)
    refused: list[DeletableTopicResult]

    def finish(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=refused + response.responses)

    def allows_name(name: str) -> bool:
        return counts[name] > 1 or permits.allows_on_topic(Operation.DELETE, name)

    def allows(asked: DeleteTopicState) -> bool:
        if asked.name is not None:
            return asked.topic_id != ZERO_UUID or allows_name(asked.name)
        name = permits.name_of(asked.topic_id)
        return name is None or (
            permits.allows_on_topic(Operation.DESCRIBE, name)
            and permits.allows_on_topic(Operation.DELETE, name)
        )

    def refuse(asked: DeleteTopicState) -> DeletableTopicResult:
        if asked.name is not None:
            return _not_deleted(asked.name, ZERO_UUID)
        name = permits.name_of(asked.topic_id)
        is_shown = name is not None and permits.allows_on_topic(Operation.DESCRIBE, name)
        return _not_deleted(name if is_shown else None, asked.topic_id)

    if by_state:
        request.topics, refused = yield from sift(request.topics, allows, refuse)
        is_empty = not request.topics
    else:
        left, refused = yield from sift(
            request.topic_names, allows_name, lambda name: _not_deleted(name, ZERO_UUID)
        )
        request.topic_names = left
        is_empty = not left
    if not refused:
        return PASS
    return Refused(DeleteTopicsResponse(responses=refused)) if is_empty else Pass(finish)


def _not_deleted(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=_DENIED, error_message=WORDS[_DENIED]
    )
