"""Guards of group APIs and of FindCoordinator: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups,
ListGroups, DeleteGroups, ConsumerGroupHeartbeat, ConsumerGroupDescribe.

Requests of members need READ on the group, checked before the group is looked up. FindCoordinator needs
DESCRIBE on each group or transactional id. Source: Kafka's `KafkaApis`.
"""

from collections.abc import Iterator
from typing import Any, Final

from coordinator.apis.auth_helper import (
    PASS,
    AuthHelper,
    AuthorizationDenied,
    GuardPassed,
    GuardResult,
)
from coordinator.apis.find_coordinator import CoordinatorType
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.sync_group import SyncGroupRequest

_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_PROTOCOL_SINCE: Final = 5
"""The version of SyncGroup that has to say which protocol."""

_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."
_SEVERAL_KEYS_SINCE: Final = 4
_RESOURCES_BY_KEY_TYPE: Final = {
    int(CoordinatorType.GROUP): (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    int(CoordinatorType.TRANSACTION): (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def guard_join_group(request: JoinGroupRequest, helper: AuthHelper) -> GuardResult:
    """JoinGroup: unlike other refusals of it, this one does not name the member. It may have the regular
    expressions of a group of the newer protocol looked up."""
    if helper.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return GuardPassed(arguments=(helper.may_describe,))
    return helper.deny_request(request, _GROUP_DENIED)


def guard_sync_group(request: SyncGroupRequest, helper: AuthHelper) -> GuardResult:
    """SyncGroup: one without its protocol is told so first."""
    if helper.api_version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return PASS
    return guard_member(request, helper)


def guard_member(request: Any, helper: AuthHelper) -> GuardResult:
    """READ on the group: Heartbeat, LeaveGroup and SyncGroup."""
    if helper.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return PASS
    return helper.deny_request(request, _GROUP_DENIED)


async def guard_describe_groups(
    request: DescribeGroupsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DESCRIBE on each group: the refused come first."""
    refused: list[DescribedGroup] = []
    allowed: list[str] = []
    with_operations = request.include_authorized_operations
    for group_id in request.groups:
        if helper.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
            if with_operations:
                helper.find_authorized_operations(ResourceType.GROUP, group_id)
        else:
            refused.append(helper.build_denied_entry(DescribedGroup, group_id, _GROUP_DENIED))
        await budget.checkpoint()

    def finish(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        for group in response.groups:
            if with_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = helper.find_authorized_operations(
                    ResourceType.GROUP, group.group_id
                )
        return DescribeGroupsResponse(groups=refused + response.groups)

    request.groups = allowed
    if not allowed:
        return AuthorizationDenied(DescribeGroupsResponse(groups=refused))
    return GuardPassed(finish) if refused or with_operations else PASS


def guard_list_groups(request: ListGroupsRequest, helper: AuthHelper) -> GuardResult:
    """All groups for whoever may describe the cluster; for others those that they may describe, and nothing of the
    rest is logged."""
    if helper.allows_on_cluster(AclOperation.DESCRIBE, logs_denied=False):
        return PASS

    def finish(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [
            group
            for group in response.groups
            if helper.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denied=False)
        ]
        return response

    return GuardPassed(finish)


async def guard_delete_groups(
    request: DeleteGroupsRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DELETE on each group: the refused come last."""
    refused: list[DeletableGroupResult] = []
    allowed: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        if helper.allows(AclOperation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            refused.append(helper.build_denied_entry(DeletableGroupResult, group_id, _GROUP_DENIED))
        await budget.checkpoint()

    def finish(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=response.results + refused)

    request.groups_names = allowed
    if not allowed:
        return AuthorizationDenied(DeleteGroupsResponse(results=refused))
    return GuardPassed(finish) if refused else PASS


def guard_consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, helper: AuthHelper) -> GuardResult:
    """READ on the group, then DESCRIBE on each topic that is subscribed to by name. Those that a regular expression
    matches are missing where they may not be described: whoever looks them up asks."""
    if not helper.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return helper.deny_request(request, _GROUP_DENIED)
    names = dict.fromkeys(request.subscribed_topic_names or ())
    if all(helper.allows_on_topic(AclOperation.DESCRIBE, name) for name in names):
        return GuardPassed(arguments=(helper.may_describe,))
    return helper.deny_request(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def guard_describe_consumer_groups(
    request: ConsumerGroupDescribeRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """DESCRIBE on each group: the refused come first. One that knows a topic which the client may not see is not
    told of."""
    refused: list[ConsumerGroupDescribeResponseGroup] = []
    allowed: list[str] = []
    with_operations = request.include_authorized_operations
    for group_id in request.group_ids:
        if helper.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
            if with_operations:
                helper.find_authorized_operations(ResourceType.GROUP, group_id)
        else:
            refused.append(
                helper.build_denied_entry(ConsumerGroupDescribeResponseGroup, group_id, _GROUP_DENIED)
            )
        await budget.checkpoint()

    def finish(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        # A group that the request repeats is one object: its topics are authorized once.
        shown: dict[str, ConsumerGroupDescribeResponseGroup] = {}
        for group in response.groups:
            if group.group_id not in shown:
                shown[group.group_id] = _hide_unauthorized_group(
                    group, helper, with_operations=with_operations
                )
        groups = [shown[group.group_id] for group in response.groups]
        return ConsumerGroupDescribeResponse(groups=refused + groups)

    request.group_ids = allowed
    return (
        GuardPassed(finish) if allowed else AuthorizationDenied(ConsumerGroupDescribeResponse(groups=refused))
    )


def _hide_unauthorized_group(
    group: ConsumerGroupDescribeResponseGroup, helper: AuthHelper, *, with_operations: bool
) -> ConsumerGroupDescribeResponseGroup:
    """A group as the client may see it."""
    if group.error_code != ErrorCode.NONE:
        return group
    names = dict.fromkeys(_iterate_topics(group))
    if not all(helper.allows_on_topic(AclOperation.DESCRIBE, name) for name in names):
        return helper.build_denied_entry(
            ConsumerGroupDescribeResponseGroup,
            group.group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            _HIDDEN_TOPICS,
        )
    if with_operations:
        group.authorized_operations = helper.find_authorized_operations(ResourceType.GROUP, group.group_id)
    return group


def _iterate_topics(group: ConsumerGroupDescribeResponseGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


async def guard_find_coordinator(
    request: FindCoordinatorRequest, helper: AuthHelper, budget: Budget
) -> GuardResult:
    """One key up to v3; from then on several, each of which is answered in its place."""
    if request.key_type not in _RESOURCES_BY_KEY_TYPE:
        return PASS  # what else there is is not served
    resource_type, error = _RESOURCES_BY_KEY_TYPE[request.key_type]
    if helper.api_version < _SEVERAL_KEYS_SINCE:
        if helper.allows(AclOperation.DESCRIBE, resource_type, request.key):
            return PASS
        return helper.deny_request(request, error)
    answers: list[Coordinator | None] = []
    allowed: list[str] = []
    for key in request.coordinator_keys:
        if helper.allows(AclOperation.DESCRIBE, resource_type, key):
            allowed.append(key)
            answers.append(None)
        else:
            answers.append(helper.build_denied_entry(Coordinator, key, error, message=""))
        await budget.checkpoint()
    if len(allowed) == len(answers):
        return PASS

    def finish(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(response.coordinators)
        return FindCoordinatorResponse(coordinators=[answer or next(found) for answer in answers])

    request.coordinator_keys = allowed
    return GuardPassed(finish) if allowed else AuthorizationDenied(finish(FindCoordinatorResponse()))
