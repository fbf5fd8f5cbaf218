"""DescribeGroups: state, protocol and members. Source: Kafka's GroupMetadataManager.describeGroups."""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NO_METADATA, Member
from coordinator.group.groups import Groups
from coordinator.group.state import DEAD, STABLE
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GROUP_ID_NOT_FOUND_VERSION: Final = 6

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS: Final = sum(
    1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
)
"""What may be done to a group where nothing is forbidden: a bit for each of Kafka's AclOperations that
apply to groups (KIP-430)."""


def describe_groups(groups: Groups, request: DescribeGroupsRequest, context: Context, turn: Turn) -> None:
    """Answer a DescribeGroups with a DescribeGroupsResponse, in the request's order. A group that does not
    exist, or is of another type, is described as Dead; from v6 on that is an error too (KIP-1043)."""
    described = []
    for group_id in request.groups:
        group = groups.find_classic(group_id)
        if group is None or group.state is DEAD:
            is_there = group is None and groups.find(group_id) is not None
            message = f"Group {group_id} {'is not a classic group' if is_there else 'not found'}."
            description = _describe_missing(group_id, message, context.api_version)
        else:
            description = _describe(group)
        if request.include_authorized_operations and description.error_code == ErrorCode.NONE:
            description.authorized_operations = ALL_OPERATIONS
        described.append(description)
    turn.reply(context.waiter, DescribeGroupsResponse(groups=described))


def _describe_missing(group_id: str, message: str, api_version: int) -> DescribedGroup:
    is_error = api_version >= GROUP_ID_NOT_FOUND_VERSION
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=message if is_error else None,
        group_id=group_id,
        group_state=DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _describe(group: ClassicGroup) -> DescribedGroup:
    """Protocol and metadata are told of a Stable group only: in other states they are about to change."""
    protocol_name = group.protocol_name if group.state is STABLE else None
    assert group.state is not STABLE or protocol_name is not None, group.group_id
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[_describe_member(member, protocol_name) for member in group.members.values()],
    )


def _describe_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=NO_METADATA if protocol_name is None else member.metadata_for(protocol_name),
        member_assignment=member.assignment,
    )
