"""Validation of a ConsumerGroupHeartbeat before its group is looked up, and the error with which consumer
group requests fail.
"""

from typing import Final

from coordinator.group.consumer.consumer_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_TIMEOUT,
)
from coordinator.group.group_config import ConsumerGroupConfig
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.primitives import MAX_STRING_BYTES

CLIENT_MEMBER_ID_VERSION: Final = 1
"""The version from which on clients generate their member id (KIP-1082)."""
MAX_SUBSCRIBED_TOPICS: Final = 25_000
"""Topics that a member may name, existing or not: each one is counted, sorted and stored. Kafka has no limit."""
MAX_SUBSCRIPTION_ELEMENTS: Final = 3 * MAX_SUBSCRIBED_TOPICS
"""Topics, owned topics and owned partitions together in the subscription of a member with the classic protocol. One
step decodes them: more would delay other clients. Kafka has no limit."""


class GroupApiError(Exception):
    """The error of a consumer group request, with an optional message."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = None if message is None else truncate_message(message)


def truncate_message(message: str) -> str:
    """Truncate a message to the limit of the response field: names in it may be that long by themselves. Kafka
    closes the connection instead.
    """
    text = message.encode(errors="surrogatepass")
    if len(text) <= MAX_STRING_BYTES:
        return message
    return text[:MAX_STRING_BYTES].decode(errors="ignore")


def build_unknown_member_error(group_id: str, member_id: str) -> GroupApiError:
    """Build the error for an unknown member id."""
    message = f"Member {member_id} is not a member of group {group_id}."
    return GroupApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, config: ConsumerGroupConfig
) -> GroupApiError | None:
    """Return the error of a request that holds for any group, even while its partition is loading; None for a valid
    request.
    """
    problem = _find_problem(request, api_version)
    if problem is not None:
        return GroupApiError(ErrorCode.INVALID_REQUEST, problem)
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.assignors:
        supported = ", ".join(config.assignors)
        message = f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}."
        return GroupApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _find_problem(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    epoch = request.member_epoch
    has_id = api_version >= CLIENT_MEMBER_ID_VERSION or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    if has_id and is_blank(request.member_id):
        return "MemberId can't be empty."
    if is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.instance_id is not None and is_blank(request.instance_id):
        return "InstanceId can't be empty."
    if request.rack_id is not None and is_blank(request.rack_id):
        return "RackId can't be empty."
    if epoch == JOINING_EPOCH:
        return _find_join_problem(request)
    if epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < LEAVING_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return _find_excess_topics(request)


def _find_join_problem(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return _find_excess_topics(request)


def _find_excess_topics(request: ConsumerGroupHeartbeatRequest) -> str | None:
    names = request.subscribed_topic_names
    if names is not None and len(names) > MAX_SUBSCRIBED_TOPICS:
        return f"SubscribedTopicNames has {len(names)} names, more than {MAX_SUBSCRIBED_TOPICS}."
    return None


def is_blank(text: str) -> bool:
    """Return whether Java's `String.trim` would leave nothing: all characters are at most the space."""
    return all(letter <= " " for letter in text)
