"""ConsumerGroupHeartbeat, ConsumerGroupDescribe. Source: Kafka's `KafkaApis`."""

from collections.abc import Iterator
from typing import Final

from coordinator.group.refusal import error_response
from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import Pass, Refused, Steps, Verdict
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def guard_heartbeat(request: ConsumerGroupHeartbeatRequest, permits: Permits) -> Verdict:
    """READ on the group, then DESCRIBE on each topic that is subscribed to by name. Those that a regular expression
    matches are missing where they may not be described: whoever looks them up asks."""
    if not permits.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return Refused(error_response(request, permits.api_version, error))
    names = dict.fromkeys(request.subscribed_topic_names or ())
    if all(permits.allows_on_topic(Operation.DESCRIBE, name) for name in names):
        return Pass(arguments=(permits.may_describe,))
    return Refused(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def guard_describe(request: ConsumerGroupDescribeRequest, permits: Permits) -> Steps:
    """DESCRIBE on each group: the refused come first. One that knows a topic which the client may not see is not
    told of."""
    refused: list[ConsumerGroupDescribeResponseGroup] = []
    allowed: list[str] = []
    asks = request.include_authorized_operations
    for group_id in request.group_ids:
        if permits.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
            if asks:
                permits.operations(ResourceType.GROUP, group_id)
        else:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(ConsumerGroupDescribeResponseGroup(error_code=error, group_id=group_id))
        yield

    def finish(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        groups = [_seen(group, permits, asks=asks) for group in response.groups]
        return ConsumerGroupDescribeResponse(groups=refused + groups)

    request.group_ids = allowed
    return Pass(finish) if allowed else Refused(ConsumerGroupDescribeResponse(groups=refused))


def _seen(
    group: ConsumerGroupDescribeResponseGroup, permits: Permits, *, asks: bool
) -> ConsumerGroupDescribeResponseGroup:
    """A group as the client may see it."""
    if group.error_code != ErrorCode.NONE:
        return group
    names = dict.fromkeys(_topics_of(group))
    if not all(permits.allows_on_topic(Operation.DESCRIBE, name) for name in names):
        return ConsumerGroupDescribeResponseGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=_HIDDEN_TOPICS,
            group_id=group.group_id,
        )
    if asks:
        group.authorized_operations = permits.operations(ResourceType.GROUP, group.group_id)
    return group


def _topics_of(group: ConsumerGroupDescribeResponseGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name
