"""SyncGroup, Heartbeat and LeaveGroup of members of the classic protocol in a consumer group.

To such a member a rebalance looks as ever, but nobody waits for anybody: it is told to join again whenever there is
something new for it, is answered at once, and asks for its assignment. Its generation is its epoch.

Source: Kafka's GroupMetadataManager, classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup and
classicGroupLeaveToConsumerGroup.
"""

from coordinator.group.classic.heartbeat import RESPONSES
from coordinator.group.classic.leave import answer_leave, identities_of
from coordinator.group.classic.member import NOT_PROVIDED
from coordinator.group.consumer.embedded_protocol import assignment_bytes
from coordinator.group.consumer.events import ConsumerMemberLeft, EpochCause
from coordinator.group.consumer.fence import remove_members
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, MemberState
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.session import await_join, end_sync, restart_session
from coordinator.group.groups import Groups
from coordinator.group.refusal import check_group_id, check_sync, refuse
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_member(
    groups: Groups, group: ConsumerGroup, request: SyncGroupRequest, context: Context, turn: Turn
) -> None:
    """Answer a SyncGroup with a SyncGroupResponse: what the member may have now."""
    error = check_sync(request, context.api_version)
    if error is ErrorCode.NONE:
        error = _sync_error(group, request, turn)
    if error is not ErrorCode.NONE:
        refuse(group, request, context, error, turn)
        return
    member = group.durable.members[request.member_id]
    assert member.classic is not None, member.member_id
    end_sync(group, member.member_id, turn)
    restart_session(group, member.member_id, member.classic.session_timeout_ms, context.connection_id, turn)
    metadata = member.classic.supported_protocols[0].metadata
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member.assigned, metadata, groups.topics),
    )
    turn.reply(context.waiter, response)


def _sync_error(group: ConsumerGroup, request: SyncGroupRequest, turn: Turn) -> ErrorCode:
    error = sender_error(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    member = group.durable.members[request.member_id]
    assert member.classic is not None, member.member_id
    offered = member.classic.supported_protocols[0].name
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, offered):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if (
        group.durable.assignment_epoch > member.member_epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        await_join(group, member, turn)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def sender_error(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    """Whether the sender is a member of the classic protocol, under that instance id, in that generation.
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    if instance_id is not None:
        holder = group.holder_of(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.durable.members.get(member_id)
    if member is None or not member.uses_classic_protocol:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation_id != member.member_epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def heartbeat_of_member(
    groups: Groups, group: ConsumerGroup, request: HeartbeatRequest, context: Context, turn: Turn
) -> None:
    """Answer a Heartbeat with a HeartbeatResponse: REBALANCE_IN_PROGRESS where there is something new."""
    error = check_group_id(request)
    if error is ErrorCode.NONE:
        sent = (request.member_id, request.group_instance_id, request.generation_id)
        error = sender_error(group, *sent)
    if error is not ErrorCode.NONE:
        refuse(group, request, context, error, turn)
        return
    member = group.durable.members[request.member_id]
    assert member.classic is not None, member.member_id
    timeout_ms = member.classic.session_timeout_ms
    restart_session(group, member.member_id, timeout_ms, context.connection_id, turn)
    if _has_to_rejoin(group, member):
        await_join(group, member, turn)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    turn.reply(context.waiter, RESPONSES[error])


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.durable.assignment_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not _waits_for_others(group, member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether anybody still holds what it is to have."""
    return any(
        partition not in member.assigned.get(topic_id, {})
        and group.durable.holder_of(topic_id, partition) is not None
        for topic_id, partitions in group.durable.target_of(member.member_id).items()
        for partition in partitions
    )


def leave_with_members(
    groups: Groups, group: ConsumerGroup, request: LeaveGroupRequest, context: Context, turn: Turn
) -> None:
    """Answer a LeaveGroup with a LeaveGroupResponse. It may name members of either protocol; all that go cause one
    epoch."""
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        refuse(group, request, context, error, turn)
        return
    left: dict[str, ConsumerMember] = {}
    errors: list[tuple[MemberIdentity, ErrorCode]] = []
    for identity in identities_of(request, context.api_version):
        member_id, error = _leaving(group, identity)
        if member_id is not None:
            member = left[member_id] = group.durable.members[member_id]
            reason = NOT_PROVIDED if identity.reason is None else identity.reason
            turn.tell(
                ConsumerMemberLeft(
                    group.group_id, group.durable.epoch, member.name, returns=False, reason=reason
                )
            )
        errors.append((identity, error))
    if left:
        try:
            remove_members(groups, group, list(left.values()), EpochCause.MEMBER_LEFT, turn)
        except Refusal as refusal:
            refuse(group, request, context, refusal.error, turn)
            return
    answer_leave(errors, context, turn)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> tuple[str | None, ErrorCode]:
    """Who leaves; None with the error of whoever cannot."""
    if identity.group_instance_id is None:
        is_member = identity.member_id in group.durable.members
        return (identity.member_id, ErrorCode.NONE) if is_member else (None, ErrorCode.UNKNOWN_MEMBER_ID)
    holder = group.holder_of(identity.group_instance_id)
    if holder is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    if identity.member_id not in ("", holder):
        return None, ErrorCode.FENCED_INSTANCE_ID
    return holder, ErrorCode.NONE
