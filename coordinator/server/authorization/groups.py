"""DescribeGroups, ListGroups, DeleteGroups."""

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps, Verdict
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def guard_describe(request: DescribeGroupsRequest, permits: Permits) -> Steps:
    """DESCRIBE on each group: the refused come first."""
    refused: list[DescribedGroup] = []
    allowed: list[str] = []
    asks = request.include_authorized_operations
    for group_id in request.groups:
        if permits.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
            if asks:
                permits.operations(ResourceType.GROUP, group_id)
        else:
            refused.append(_described(group_id))
        yield

    def finish(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        for group in response.groups:
            if asks and group.error_code == ErrorCode.NONE:
                group.authorized_operations = permits.operations(ResourceType.GROUP, group.group_id)
        return DescribeGroupsResponse(groups=refused + response.groups)

    request.groups = allowed
    if not allowed:
        return Refused(DescribeGroupsResponse(groups=refused))
    return Pass(finish) if refused or asks else PASS


def _described(group_id: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def guard_list(request: ListGroupsRequest, permits: Permits) -> Verdict:
    """All groups for whoever may describe the cluster; for others those that they may describe, and nothing of the
    rest is logged."""
    if permits.allows_on_cluster(Operation.DESCRIBE, logs_denied=False):
        return PASS

    def finish(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [
            group
            for group in response.groups
            if permits.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denied=False)
        ]
        return response

    return Pass(finish)


def guard_delete(request: DeleteGroupsRequest, permits: Permits) -> Steps:
    """DELETE on each group: the refused come last."""
    refused: list[DeletableGroupResult] = []
    allowed: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        if permits.allows(Operation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(DeletableGroupResult(group_id=group_id, error_code=error))
        yield

    def finish(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=response.results + refused)

    request.groups_names = allowed
    if not allowed:
        return Refused(DeleteGroupsResponse(results=refused))
    return Pass(finish) if refused else PASS
