"""DeleteGroups: remove empty groups. Source: Kafka's GroupCoordinatorShard.deleteGroups."""

from coordinator.group.groups import Groups
from coordinator.group.member_name import MemberName
from coordinator.group.removal import remove_group
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(groups: Groups, request: DeleteGroupsRequest, context: Context, turn: Turn) -> None:
    """Answer a DeleteGroups with a DeleteGroupsResponse: a result for each different id, in their order."""
    client = MemberName("", None, context.client_id, context.client_host)
    results = [
        DeletableGroupResult(group_id=group_id, error_code=_delete(groups, group_id, client, turn))
        for group_id in dict.fromkeys(request.groups_names)
    ]
    turn.reply(context.waiter, DeleteGroupsResponse(results=results))


def _delete(groups: Groups, group_id: str, client: MemberName, turn: Turn) -> ErrorCode:
    group = groups.find(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = group.delete_error()
    if error is ErrorCode.NONE:
        remove_group(groups, group, "request", turn, client=client)
    return error
