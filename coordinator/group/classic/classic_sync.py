"""SyncGroup: the leader hands in the assignment, every member gets its part.

Source: Kafka's GroupMetadataManager, classicGroupSync.
"""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import prepare_rebalance, synced
from coordinator.group.classic.record import group_metadata_record
from coordinator.group.classic.report import close_rebalance, complete_rebalance
from coordinator.group.classic.responses import sync_error, sync_success
from coordinator.group.classic.session import answer_syncs, park_sync, restart_session
from coordinator.group.events import (
    AssignmentApplied,
    AssignmentFetched,
    AssignmentReceived,
    MemberToldToRejoin,
    SyncReceived,
)
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import RebalanceCause, Trigger
from coordinator.group.record_size import batch_size
from coordinator.group.refusal import check_sync, refuse
from coordinator.group.refusal_facts import ProtocolsDiffer
from coordinator.group.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest


def sync_group(groups: Groups, request: SyncGroupRequest, context: Context, turn: Turn) -> None:
    """Answer a SyncGroup with a SyncGroupResponse, or park it until the leader has handed in the
    assignment."""
    group = groups.find_classic(request.group_id)
    error = check_sync(request, context.api_version)
    if error is ErrorCode.NONE:
        error = _refusal(group, request)
    if error is ErrorCode.REBALANCE_IN_PROGRESS:
        assert group is not None, request.group_id
        name = group.members[request.member_id].name
        turn.tell(MemberToldToRejoin(group.group_id, group.generation_id, name, "sync-group"))
        turn.reply(context.waiter, sync_error(error))
        return
    if error is not ErrorCode.NONE:
        is_other = error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refuse(group, request, context, error, turn, _difference(group, request) if is_other else None)
        return
    assert group is not None, request.group_id
    member = group.members[request.member_id]
    synced(group, member, turn)
    if group.state is STABLE:
        if not group.pending_sync:
            close_rebalance(group, turn)
        turn.reply(context.waiter, sync_success(group, member))
        turn.tell(AssignmentFetched(group.group_id, group.generation_id, member.name))
        restart_session(group, member, turn)
        return
    assert group.state is COMPLETING_REBALANCE, group.state
    turn.tell(SyncReceived(group.group_id, group.generation_id, member.name))
    park_sync(member, context, turn)
    if member.member_id == group.leader_id:
        _apply_assignment(groups, group, member, request, turn)


def _refusal(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
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


def _difference(group: ClassicGroup | None, request: SyncGroupRequest) -> ProtocolsDiffer:
    sent, has = request.protocol_name, None if group is None else group.protocol_name
    return ProtocolsDiffer(
        request.protocol_type,
        () if sent is None else (sent,),
        None if group is None else group.protocol_type,
        () if has is None else (has,),
    )


def _apply_assignment(
    groups: Groups, group: ClassicGroup, leader: Member, request: SyncGroupRequest, turn: Turn
) -> None:
    """The leader's assignment: recorded, and then told to everyone who waits for it. Ids that are no
    members are ignored; members that it left out get an empty assignment. A group too large for one record
    gets none at all."""
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    missing = tuple(member_id for member_id in group.members if member_id not in assignments)
    turn.tell(
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
    # The timestamp of the record is that of the state in which the leader found the group, as in Kafka.
    record = group_metadata_record(group)
    if batch_size([record]) > groups.config.message_max_bytes:
        _refuse_assignment(groups, group, leader, turn)
        return
    turn.write(record)
    group.transition_to(STABLE, turn.now.wall_ms)
    turn.tell(AssignmentApplied(group.group_id, group.generation_id, len(group.members)))
    assert group.rebalance is not None, group.group_id
    group.rebalance.end_sync_phase(turn.now.monotonic_ms)
    complete_rebalance(group, turn)
    answer_syncs(group, ErrorCode.NONE, turn)


def _refuse_assignment(groups: Groups, group: ClassicGroup, leader: Member, turn: Turn) -> None:
    """The log would refuse the record: nobody is assigned anything, and the group starts over."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    answer_syncs(group, error, turn)
    reason = (
        f"Error {error.name} when storing group assignment during SyncGroup (member: {leader.member_id})."
    )
    prepare_rebalance(groups, group, Trigger(RebalanceCause.ASSIGNMENT_TOO_LARGE, reason, leader.name), turn)
