"""Is the sender of a request the member that it says it is?"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.events import MemberFenced
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode

# Looking a member of an enumeration up costs more than the rest of the check.
NONE: Final = ErrorCode.NONE


def validate_member(
    group: ClassicGroup,
    member_id: str,
    group_instance_id: str | None,
    operation: str,
    context: Context,
    turn: Turn,
) -> ErrorCode:
    """NONE for a member; UNKNOWN_MEMBER_ID for an unknown id or instance id; FENCED_INSTANCE_ID when the
    instance id is another member's (KIP-345). `operation` is Kafka's word for the request, for the log."""
    if group_instance_id is not None:
        existing_member_id = group.static_members.get(group_instance_id)
        if existing_member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if existing_member_id != member_id:
            sender = MemberName(member_id, group_instance_id, context.client_id, context.client_host)
            turn.tell(
                MemberFenced(group.group_id, group.generation_id, sender, existing_member_id, operation)
            )
            return ErrorCode.FENCED_INSTANCE_ID
    return NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
