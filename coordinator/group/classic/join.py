"""JoinGroup: who may enter, who gets an id first, and who causes a rebalance.

The checks come in Kafka's order, since clients act on the first error: group id, session timeout, does the
group exist, is there room, do the protocols fit, is the sender who it says it is. Only then does anything
change. Source: Kafka's GroupMetadataManager, classicGroupJoin.
"""

from sys import intern
from typing import Final

from coordinator.group.classic.group import ClassicGroup, PendingMember
from coordinator.group.classic.join_request import Join, read_join
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import rebalance_or_complete_join
from coordinator.group.classic.record import new_group_record
from coordinator.group.classic.responses import join_error, join_success
from coordinator.group.classic.session import (
    forget_pending,
    heartbeat_key,
    park_join,
    remove_member,
    restart_session,
)
from coordinator.group.classic.static_member import replace_static_member
from coordinator.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.consumer.events import GroupConverted
from coordinator.group.events import MemberIdRequired, MemberJoined, MemberRejoined
from coordinator.group.group import Group
from coordinator.group.group_type import GroupType
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import DepartureCause, RebalanceCause, Trigger
from coordinator.group.refusal import check_join, refuse, tell_refusal
from coordinator.group.refusal_facts import (
    GroupFull,
    MemberIdTooLong,
    ProtocolsDiffer,
    RefusalDetail,
    SessionTimeoutOutOfRange,
)
from coordinator.group.removal import leftovers
from coordinator.group.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.primitives import MAX_STRING_BYTES

REQUIRES_MEMBER_ID_VERSION: Final = 4


def join_group(groups: Groups, request: JoinGroupRequest, context: Context, turn: Turn) -> None:
    """Answer a JoinGroup with a JoinGroupResponse, or park it until the join phase ends."""
    error = check_join(request, groups.config)
    if error is ErrorCode.NONE:
        _join_classic(groups, read_join(request, context), turn)
        return
    detail = None
    if error is ErrorCode.INVALID_SESSION_TIMEOUT:
        config = groups.config
        bounds = (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms)
        detail = SessionTimeoutOutOfRange(request.session_timeout_ms, *bounds)
    refuse(None, request, context, error, turn, detail)


def _join_classic(groups: Groups, join: Join, turn: Turn) -> None:
    request = join.request
    group = groups.find_classic(request.group_id)
    if group is None:
        other = groups.find(request.group_id)
        makes_way = other is not None and other.type is GroupType.CONSUMER and other.is_abandoned
        if other is not None and not makes_way:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            turn.reply(join.context.waiter, join_error(error, "", join.context.api_version))
            tell_refusal(other, request, join.context, error, turn)
            return
        if request.member_id:
            refuse(None, request, join.context, ErrorCode.UNKNOWN_MEMBER_ID, turn)
            return
        if other is not None:
            _convert(groups, other, turn)
        group = groups.create_classic(intern(request.group_id), turn.now.wall_ms)
        turn.write(new_group_record(group))
    if not _has_room_for(groups, group, request.member_id):
        _refuse_room(groups, group, join, turn)
    elif group.state is DEAD:
        refuse(group, request, join.context, ErrorCode.COORDINATOR_NOT_AVAILABLE, turn)
    elif not group.supports_protocols(request.protocol_type, join.protocols):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refuse(group, request, join.context, error, turn, _difference(group, join))
    elif request.member_id:
        _join_known(groups, group, join, turn)
    else:
        _join_unknown(groups, group, join, turn)


def _convert(groups: Groups, other: Group, turn: Turn) -> None:
    """A consumer group without members makes way for a classic one. Its offsets stay."""
    for fact in (*leftovers(groups.durable, other.group_id), *other.tombstones()):
        turn.write(fact)
    turn.tell(
        GroupConverted(
            other.group_id, other.generation_id, from_type=other.type, to_type=GroupType.CLASSIC, members=0
        )
    )
    groups.give_up(other.group_id, turn)


def _has_room_for(groups: Groups, group: ClassicGroup, member_id: str) -> bool:
    """Whether group.max.size admits the sender. While members rejoin, those that have count, and not all
    that there are: so the last to come are sent away when the limit was lowered."""
    max_size = groups.config.group_max_size
    if group.state is EMPTY or group.state is DEAD:
        return True
    if group.state is PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.is_awaiting_join) or group.awaiting_join < max_size
    return member_id in group.members or len(group.members) < max_size


def _refuse_room(groups: Groups, group: ClassicGroup, join: Join, turn: Turn) -> None:
    """The sender is too much: if it was a member, or about to be one, it is none any more."""
    member_id = join.request.member_id
    count = group.awaiting_join if group.state is PREPARING_REBALANCE else len(group.members)
    if member_id in group.pending_members:
        forget_pending(group, member_id, turn)
    elif member_id in group.members:
        remove_member(group, group.members[member_id], DepartureCause.NO_ROOM, turn)
    detail = GroupFull(count, groups.config.group_max_size)
    _refuse_without_id(group, join, ErrorCode.GROUP_MAX_SIZE_REACHED, turn, detail)


def _refuse_without_id(
    group: ClassicGroup, join: Join, error: ErrorCode, turn: Turn, detail: RefusalDetail | None = None
) -> None:
    """Refuse the sender, and the member id that it may have."""
    turn.reply(join.context.waiter, join_error(error, "", join.context.api_version))
    tell_refusal(group, join.request, join.context, error, turn, detail)


def _difference(group: ClassicGroup, join: Join) -> ProtocolsDiffer:
    size = len(group.members)
    return ProtocolsDiffer(
        join.request.protocol_type,
        tuple(name for name, _ in join.protocols),
        group.protocol_type,
        tuple(name for name, count in group.supported_protocols.items() if count == size),
    )


def _join_unknown(groups: Groups, group: ClassicGroup, join: Join, turn: Turn) -> None:
    """A sender without a member id: it gets one."""
    request, context = join.request, join.context
    assert len(context.new_member_uuid) == 36, context.new_member_uuid
    instance_id = request.group_instance_id
    prefix = context.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{context.new_member_uuid}"
    if len(member_id.encode()) > MAX_STRING_BYTES:
        # Neither an answer nor a record could hold it; Kafka finds out when it writes the answer.
        detail = MemberIdTooLong(MAX_STRING_BYTES)
        refuse(group, request, context, ErrorCode.UNKNOWN_SERVER_ERROR, turn, detail)
        return
    if instance_id is not None and instance_id in group.static_members:
        replace_static_member(groups, group, join, member_id, turn)
    elif instance_id is not None or context.api_version < REQUIRES_MEMBER_ID_VERSION:
        _add_member(groups, group, join, member_id, turn)
    else:
        now_ms = turn.now.monotonic_ms
        deadline_ms = now_ms + request.session_timeout_ms
        name = join.sender(member_id)
        group.pending_members[member_id] = PendingMember(name, now_ms, deadline_ms, context.connection_id)
        turn.arm(heartbeat_key(group, member_id), deadline_ms)
        turn.tell(MemberIdRequired(group.group_id, group.generation_id, name, group.state.value))
        turn.reply(context.waiter, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version))


def _join_known(groups: Groups, group: ClassicGroup, join: Join, turn: Turn) -> None:
    """A sender with a member id: a pending member, or one that rejoins."""
    request = join.request
    member_id, state = request.member_id, group.state
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            # Ids are only pending for dynamic members: Kafka takes this for a broken server, and says so.
            _refuse_without_id(group, join, ErrorCode.UNKNOWN_SERVER_ERROR, turn)
        else:
            _add_member(groups, group, join, member_id, turn)
        return
    error = group.check_sender(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        refuse(group, request, join.context, error, turn)
        return
    assert state is not EMPTY, "an empty group has no members"
    member = group.members[member_id]
    changed = member.protocols != join.protocols
    leads = member_id == group.leader_id
    if state is PREPARING_REBALANCE:
        _rejoin(groups, group, member, join, f"Member {member_id} is joining group", turn)
    elif changed and not (state is STABLE and leads):
        _rejoin(groups, group, member, join, f"Updating metadata for member {member_id}", turn)
    elif state is STABLE and leads:
        # The leader may know of changes that its metadata does not show, such as new partitions.
        _rejoin(groups, group, member, join, f"Leader {member_id} re-joining group", turn)
    else:
        # It missed the answer, or has lost nothing by asking again: the generation stands.
        member.connection_id = join.context.connection_id
        assert group.leader_id is not None, group.group_id
        with_members = leads and state is COMPLETING_REBALANCE
        turn.reply(
            join.context.waiter,
            join_success(group, member_id, with_members=with_members, leader=group.leader_id),
        )


def _rejoin(groups: Groups, group: ClassicGroup, member: Member, join: Join, reason: str, turn: Turn) -> None:
    """A member comes (again) to the join phase, or starts one."""
    name = join.sender(member.member_id)
    turn.tell(MemberRejoined(group.group_id, group.generation_id, name, group.state.value))
    join.update(group, member)
    park_join(group, member, join.context, turn)

    def trigger() -> Trigger:
        leads = member.member_id == group.leader_id and group.state is STABLE
        cause = RebalanceCause.LEADER_REJOINED if leads else RebalanceCause.METADATA_CHANGED
        sentence = f"{reason} during {group.state.value}; client reason: {join.reason}"
        return Trigger(cause, sentence, member.name, join.client_reason)

    rebalance_or_complete_join(groups, group, trigger, turn)


def _add_member(groups: Groups, group: ClassicGroup, join: Join, member_id: str, turn: Turn) -> None:
    request, context = join.request, join.context
    member = Member(
        member_id,
        request.group_instance_id,
        intern(context.client_id),
        intern(context.client_host),
        request.session_timeout_ms,
        join.rebalance_timeout_ms,
        group.shared(join.protocols),
        connection_id=context.connection_id,
    )
    member.is_new = True
    was_pending = member_id in group.pending_members
    if was_pending:
        member.timer_deadline_ms = group.pending_members[member_id].deadline_ms
    state = group.state
    group.add(member, request.protocol_type)
    park_join(group, member, context, turn)
    if state is PREPARING_REBALANCE and group.initial_join is not None:
        group.new_member_added = True
    restart_session(group, member, turn, NEW_MEMBER_JOIN_TIMEOUT_MS)
    turn.tell(MemberJoined(group.group_id, group.generation_id, member.name, state.value, was_pending))

    def trigger() -> Trigger:
        instance = "null" if member.group_instance_id is None else member.group_instance_id
        what = f"Adding new member {member_id} with group instance id {instance}"
        sentence = f"{what}; client reason: {join.reason}"
        return Trigger(RebalanceCause.MEMBER_JOINED, sentence, member.name, join.client_reason)

    rebalance_or_complete_join(groups, group, trigger, turn)
