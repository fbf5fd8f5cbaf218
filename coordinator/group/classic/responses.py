"""The answers to JoinGroup and SyncGroup."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.state import DEAD, PREPARING_REBALANCE
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse

NULLABLE_PROTOCOL_NAME_VERSION = 7
NO_GENERATION = -1


def join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """A refused JoinGroup; the protocol name is null where the version allows it (KIP-559)."""
    assert error is not ErrorCode.NONE
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_name=None if api_version >= NULLABLE_PROTOCOL_NAME_VERSION else "",
        leader="",
        member_id=member_id,
    )


def join_success(
    group: ClassicGroup, member_id: str, *, with_members: bool, leader: str, skip_assignment: bool = False
) -> JoinGroupResponse:
    """A member's part in the current generation. `with_members` lists all members, for the leader;
    `skip_assignment` tells a leader not to assign (KIP-814)."""
    assert group.protocol_name is not None, group.group_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members_for_leader(group) if with_members else [],
    )


def _members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.state not in (PREPARING_REBALANCE, DEAD), group.state
    assert group.protocol_name is not None, group.group_id
    name = group.protocol_name
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_for(name),
        )
        for member in group.members.values()
    ]


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup: no protocol, no assignment."""
    assert error is not ErrorCode.NONE
    return SyncGroupResponse(error_code=error, assignment=b"")


def sync_success(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The assignment of a member."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
