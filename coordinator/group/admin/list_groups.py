"""ListGroups: the groups of a shard. Source: Kafka's GroupMetadataManager.listGroups (KIP-518, KIP-848)."""

from coordinator.group.groups import Groups
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def list_groups(groups: Groups, request: ListGroupsRequest, context: Context, turn: Turn) -> None:
    """Answer a ListGroups with a ListGroupsResponse. A filter without entries lets everything through; a
    name that is no state or type matches nothing. Case does not count, nor do blanks around a state."""
    states = frozenset(name.strip().lower() for name in request.states_filter)
    types = frozenset(name.lower() for name in request.types_filter)
    listed = []
    for group in groups.all():
        state = group.state_name
        if (not states or state.lower() in states) and (not types or group.type.lower() in types):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=group.type,
                )
            )
    turn.reply(context.waiter, ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed))
