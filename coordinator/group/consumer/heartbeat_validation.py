"""What is wrong with a ConsumerGroupHeartbeat whatever the group, in Kafka's order.

Source: Kafka's GroupCoordinatorService, throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from typing import Final

from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_TIMEOUT,
)
from coordinator.group.consumer.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENT_MAKES_ID_VERSION: Final = 1
"""Since when a client makes its member id itself (KIP-1082)."""
MOST_NAMES: Final = 25_000
"""Topics that a member may name, whether they exist or not: each is counted, sorted and kept. Kafka has no
bound."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, config: ConsumerGroupConfig
) -> Refusal | None:
    """Why a request is refused before anybody looks at its group; None where nothing is wrong. It is told even
    while its partition is loading."""
    problem = _invalid(request, api_version)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, problem)
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.assignors:
        supported = ", ".join(config.assignors)
        message = f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _invalid(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    epoch = request.member_epoch
    has_id = api_version >= CLIENT_MAKES_ID_VERSION or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    if has_id and is_blank(request.member_id):
        return "MemberId can't be empty."
    if is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.instance_id is not None and is_blank(request.instance_id):
        return "InstanceId can't be empty."
    if request.rack_id is not None and is_blank(request.rack_id):
        return "RackId can't be empty."
    if epoch == JOINING_EPOCH:
        return _invalid_join(request)
    if epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < LEAVING_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return _too_many(request)


def _invalid_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return _too_many(request)


def _too_many(request: ConsumerGroupHeartbeatRequest) -> str | None:
    names = request.subscribed_topic_names
    if names is not None and len(names) > MOST_NAMES:
        return f"SubscribedTopicNames has {len(names)} names, more than {MOST_NAMES}."
    return None


def is_blank(text: str) -> bool:
    """Whether a text is nothing but what Java's `String.trim` takes away: characters up to the space."""
    return all(letter <= " " for letter in text)
