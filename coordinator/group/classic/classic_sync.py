"""SyncGroup: the leader sends the assignment, and every member gets its part.

Source: Kafka's GroupMetadataManager, classicGroupSync.
"""

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_records import group_metadata_record
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.classic.rebalance import (
    answer_syncs,
    build_sync_response,
    close_rebalance,
    complete_member_sync,
    complete_rebalance,
    park_sync,
    prepare_rebalance,
)
from coordinator.group.event_details import ProtocolsDiffer, RebalanceCause, Trigger
from coordinator.group.group_event_types import (
    AssignmentApplied,
    AssignmentFetched,
    AssignmentReceived,
    MemberToldToRejoin,
    SyncReceived,
)
from coordinator.group.group_record_codec import compute_batch_size
from coordinator.group.group_request_rules import build_sync_error, check_sync, refuse_request
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest


def sync_classic_group(
    groups: ShardGroups,
    group: ClassicGroup | None,
    request: SyncGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a SyncGroup with a SyncGroupResponse, or park it until the leader has sent the assignment."""
    error = check_sync(request, context.api_version)
    if error is ErrorCode.NONE:
        error = _find_sync_error(group, request)
    if error is ErrorCode.REBALANCE_IN_PROGRESS:
        assert group is not None, request.group_id
        name = group.members[request.member_id].name
        builder.add_event(MemberToldToRejoin(group.group_id, group.generation_id, name, "sync-group"))
        builder.reply(context.waiter, build_sync_error(error))
        return
    if error is not ErrorCode.NONE:
        is_other = error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refuse_request(
            group,
            request,
            context,
            error,
            builder,
            _describe_protocol_difference(group, request) if is_other else None,
        )
        return
    assert group is not None, request.group_id
    member = group.members[request.member_id]
    complete_member_sync(group, member, builder)
    if group.state is STABLE:
        if not group.pending_sync:
            close_rebalance(group, builder)
        builder.reply(context.waiter, build_sync_response(group, member))
        builder.add_event(AssignmentFetched(group.group_id, group.generation_id, member.name))
        group.restart_session(member, builder)
        return
    assert group.state is COMPLETING_REBALANCE, group.state
    builder.add_event(SyncReceived(group.group_id, group.generation_id, member.name))
    park_sync(member, context, builder)
    if member.member_id == group.leader_id:
        _apply_assignment(groups, group, member, request, builder)


def _find_sync_error(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    if group is None or group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_sender(request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return error
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _describe_protocol_difference(group: ClassicGroup | None, request: SyncGroupRequest) -> ProtocolsDiffer:
    sent, selected = request.protocol_name, None if group is None else group.protocol_name
    return ProtocolsDiffer(
        request.protocol_type,
        () if sent is None else (sent,),
        None if group is None else group.protocol_type,
        () if selected is None else (selected,),
    )


def _apply_assignment(
    groups: ShardGroups,
    group: ClassicGroup,
    leader: ClassicMember,
    request: SyncGroupRequest,
    builder: OutcomeBuilder,
) -> None:
    """Write the leader's assignment, and answer the members that wait for it.

    Ids without a member are ignored; members that the leader left out get an empty assignment. If the group exceeds
    one record, no member gets an assignment.
    """
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    missing = tuple(member_id for member_id in group.members if member_id not in assignments)
    builder.add_event(
        AssignmentReceived(
            group.group_id,
            group.generation_id,
            leader.name,
            len(group.members),
            len(group.static_members),
            missing,
            tuple(member_id for member_id in assignments if member_id not in group.members),
        )
    )
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    # As in Kafka, the record has the time of the state in which the leader's request found the group.
    record = group_metadata_record(group)
    if compute_batch_size([record]) > groups.config.message_max_bytes:
        _refuse_assignment(groups, group, leader, builder)
        return
    builder.write_fact(record)
    group.transition_to(STABLE, builder.now.wall_ms)
    builder.add_event(AssignmentApplied(group.group_id, group.generation_id, len(group.members)))
    assert group.rebalance is not None, group.group_id
    group.rebalance.end_sync_phase(builder.now.monotonic_ms)
    complete_rebalance(group, builder)
    answer_syncs(group, ErrorCode.NONE, builder)


def _refuse_assignment(
    groups: ShardGroups, group: ClassicGroup, leader: ClassicMember, builder: OutcomeBuilder
) -> None:
    """Clear all assignments and restart the rebalance, because the log would refuse the record."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    answer_syncs(group, error, builder)
    reason = (
        f"Error {error.name} when storing group assignment during SyncGroup (member: {leader.member_id})."
    )
    prepare_rebalance(
        groups, group, Trigger(RebalanceCause.ASSIGNMENT_TOO_LARGE, reason, leader.name), builder
    )
