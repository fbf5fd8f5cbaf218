"""JoinGroup to a classic group: validation, member ids, static members, and which join starts a rebalance.

Source: Kafka's GroupMetadataManager.classicGroupJoin.
"""

from sys import intern
from typing import Final

from msgspec import Struct

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import NOT_PROVIDED, ClassicMember, PendingMember, Protocols
from coordinator.group.classic.classic_records import group_metadata_record, new_group_record
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.classic.rebalance import (
    build_join_response,
    maybe_complete_join_phase,
    park_join,
    prepare_rebalance,
    rebalance_or_complete_join,
    remove_member,
)
from coordinator.group.event_details import (
    DepartureCause,
    GroupFull,
    MemberIdTooLong,
    MemberName,
    ProtocolsDiffer,
    RebalanceCause,
    RefusalDetail,
    SessionTimeoutOutOfRange,
    Trigger,
)
from coordinator.group.group_config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.group_event_types import (
    GroupConverted,
    MemberIdRequired,
    MemberJoined,
    MemberRejoined,
    RebalanceAvoided,
    StaticMemberReplaced,
)
from coordinator.group.group_interface import Group
from coordinator.group.group_request_rules import (
    add_refused_event,
    build_join_error,
    check_join,
    refuse_request,
)
from coordinator.group.group_types import GroupType
from coordinator.group.offsets.offset_removal import build_leftover_tombstones
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.primitives import MAX_STRING_BYTES

REBALANCE_TIMEOUT_VERSION: Final = 1

REQUIRES_MEMBER_ID_VERSION: Final = 4

SKIP_ASSIGNMENT_VERSION: Final = 9


class ParsedJoin(Struct):
    """A parsed JoinGroup: the request, its context, and its fields in the form that members store."""

    request: JoinGroupRequest
    context: Context
    protocols: Protocols
    rebalance_timeout_ms: int

    def apply_to_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Apply the fields of the request to a member that rejoins."""
        group.update_protocols(member, self.protocols)
        member.rebalance_timeout_ms = self.rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms
        member.connection_id = self.context.connection_id

    def describe_sender(self, member_id: str) -> MemberName:
        """Return the name of the sender, with `member_id`."""
        return MemberName(
            member_id, self.request.group_instance_id, self.context.client_id, self.context.client_host
        )

    @property
    def reason(self) -> str:
        """Return the client's reason for joining (KIP-800)."""
        return self.request.reason or NOT_PROVIDED

    @property
    def client_reason(self) -> str:
        """Return the client's reason for joining; "" without one."""
        return self.request.reason or ""


def parse_join(request: JoinGroupRequest, context: Context) -> ParsedJoin:
    """Parse a request. Of protocols with the same name the first one counts. v0 has no rebalance timeout; the
    session timeout replaces it.
    """
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(intern(protocol.name), protocol.metadata)
    has_timeout = context.api_version >= REBALANCE_TIMEOUT_VERSION
    return ParsedJoin(
        request,
        context,
        tuple(protocols.items()),
        request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
    )


def join_classic_group(
    groups: ShardGroups,
    group: ClassicGroup | None,
    request: JoinGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a JoinGroup with a JoinGroupResponse, or park it until the join phase ends."""
    error = check_join(request, groups.config)
    if error is ErrorCode.NONE:
        _join_classic(groups, group, parse_join(request, context), builder)
        return
    detail = None
    if error is ErrorCode.INVALID_SESSION_TIMEOUT:
        config = groups.config
        bounds = (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms)
        detail = SessionTimeoutOutOfRange(request.session_timeout_ms, *bounds)
    refuse_request(None, request, context, error, builder, detail)


def _join_classic(
    groups: ShardGroups, group: ClassicGroup | None, join: ParsedJoin, builder: OutcomeBuilder
) -> None:
    request = join.request
    if group is None:
        other = groups.by_id.get(request.group_id)
        makes_way = other is not None and other.type is GroupType.CONSUMER and other.is_abandoned
        if other is not None and not makes_way:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            builder.reply(join.context.waiter, build_join_error(error, "", join.context.api_version))
            add_refused_event(other, request, join.context, error, builder)
            return
        if request.member_id:
            refuse_request(None, request, join.context, ErrorCode.UNKNOWN_MEMBER_ID, builder)
            return
        if other is not None:
            _convert_empty_consumer_group(groups, other, builder)
        group = groups.create_classic_group(intern(request.group_id), builder.now.wall_ms)
        builder.write_fact(new_group_record(group))
    if not _has_room_for(groups, group, request.member_id):
        _refuse_full_group(groups, group, join, builder)
    elif group.state is DEAD:
        refuse_request(group, request, join.context, ErrorCode.COORDINATOR_NOT_AVAILABLE, builder)
    elif not group.supports_protocols(request.protocol_type, join.protocols):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refuse_request(
            group, request, join.context, error, builder, _describe_protocol_difference(group, join)
        )
    elif request.member_id:
        _join_with_member_id(groups, group, join, builder)
    else:
        _join_without_member_id(groups, group, join, builder)


def _convert_empty_consumer_group(groups: ShardGroups, other: Group, builder: OutcomeBuilder) -> None:
    """Replace a consumer group without members by a classic one. Its offsets stay."""
    for fact in (*build_leftover_tombstones(groups.durable, other.group_id), *other.tombstones()):
        builder.write_fact(fact)
    builder.add_event(
        GroupConverted(
            other.group_id, other.generation_id, from_type=other.type, to_type=GroupType.CLASSIC, members=0
        )
    )
    other.retire(builder)
    groups.forget_group(other.group_id)


def _has_room_for(groups: ShardGroups, group: ClassicGroup, member_id: str) -> bool:
    """Return whether group.max.size admits the sender.

    While members rejoin, only members that have rejoined count. So after a decrease of the limit, the last members
    to rejoin are refused.
    """
    max_size = groups.config.group_max_size
    if group.state is EMPTY or group.state is DEAD:
        return True
    if group.state is PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.is_awaiting_join) or group.awaiting_join < max_size
    return member_id in group.members or len(group.members) < max_size


def _refuse_full_group(
    groups: ShardGroups, group: ClassicGroup, join: ParsedJoin, builder: OutcomeBuilder
) -> None:
    """Refuse the sender because the group is full. A member or pending member is removed."""
    member_id = join.request.member_id
    count = group.awaiting_join if group.state is PREPARING_REBALANCE else len(group.members)
    if member_id in group.pending_members:
        group.forget_pending(member_id, builder)
    elif member_id in group.members:
        remove_member(group, group.members[member_id], DepartureCause.NO_ROOM, builder)
    detail = GroupFull(count, groups.config.group_max_size)
    _refuse_without_id(group, join, ErrorCode.GROUP_MAX_SIZE_REACHED, builder, detail)


def _refuse_without_id(
    group: ClassicGroup,
    join: ParsedJoin,
    error: ErrorCode,
    builder: OutcomeBuilder,
    detail: RefusalDetail | None = None,
) -> None:
    """Refuse the sender. As in Kafka, the response has no member id."""
    builder.reply(join.context.waiter, build_join_error(error, "", join.context.api_version))
    add_refused_event(group, join.request, join.context, error, builder, detail)


def _describe_protocol_difference(group: ClassicGroup, join: ParsedJoin) -> ProtocolsDiffer:
    size = len(group.members)
    return ProtocolsDiffer(
        join.request.protocol_type,
        tuple(name for name, _ in join.protocols),
        group.protocol_type,
        tuple(name for name, count in group.supported_protocols.items() if count == size),
    )


def _join_without_member_id(
    groups: ShardGroups, group: ClassicGroup, join: ParsedJoin, builder: OutcomeBuilder
) -> None:
    """Handle a sender without a member id: generate one, and replace a static member, add a member, or make a
    dynamic member join again with the id (KIP-394).
    """
    request, context = join.request, join.context
    assert len(context.new_member_uuid) == 36, context.new_member_uuid
    instance_id = request.group_instance_id
    prefix = context.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{context.new_member_uuid}"
    if len(member_id.encode()) > MAX_STRING_BYTES:
        # Such an id fits neither a response nor a record; Kafka notices when it writes the response.
        detail = MemberIdTooLong(MAX_STRING_BYTES)
        refuse_request(group, request, context, ErrorCode.UNKNOWN_SERVER_ERROR, builder, detail)
        return
    if instance_id is not None and instance_id in group.static_members:
        replace_static_member(groups, group, join, member_id, builder)
    elif instance_id is not None or context.api_version < REQUIRES_MEMBER_ID_VERSION:
        _add_member(groups, group, join, member_id, builder)
    else:
        now_ms = builder.now.monotonic_ms
        deadline_ms = now_ms + request.session_timeout_ms
        name = join.describe_sender(member_id)
        group.pending_members[member_id] = PendingMember(name, now_ms, deadline_ms, context.connection_id)
        builder.arm_timer(group.heartbeat_key(member_id), deadline_ms)
        builder.add_event(MemberIdRequired(group.group_id, group.generation_id, name, group.state.value))
        builder.reply(
            context.waiter, build_join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)
        )


def _join_with_member_id(
    groups: ShardGroups, group: ClassicGroup, join: ParsedJoin, builder: OutcomeBuilder
) -> None:
    """Handle a sender with a member id: a pending member, or one that rejoins."""
    request = join.request
    member_id, state = request.member_id, group.state
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            # Only dynamic members can have pending ids: Kafka treats this as a server error.
            _refuse_without_id(group, join, ErrorCode.UNKNOWN_SERVER_ERROR, builder)
        else:
            _add_member(groups, group, join, member_id, builder)
        return
    error = group.check_sender(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        refuse_request(group, request, join.context, error, builder)
        return
    assert state is not EMPTY, "an empty group has no members"
    member = group.members[member_id]
    changed = member.protocols != join.protocols
    leads = member_id == group.leader_id
    if state is PREPARING_REBALANCE:
        _rejoin(groups, group, member, join, f"Member {member_id} is joining group", builder)
    elif changed and not (state is STABLE and leads):
        _rejoin(groups, group, member, join, f"Updating metadata for member {member_id}", builder)
    elif state is STABLE and leads:
        # The leader may know of changes that its metadata does not show, such as new partitions.
        _rejoin(groups, group, member, join, f"Leader {member_id} re-joining group", builder)
    else:
        # The member missed the response, or repeats the request without a change: the generation stays.
        member.connection_id = join.context.connection_id
        assert group.leader_id is not None, group.group_id
        with_members = leads and state is COMPLETING_REBALANCE
        builder.reply(
            join.context.waiter,
            build_join_response(group, member_id, with_members=with_members, leader=group.leader_id),
        )


def _rejoin(
    groups: ShardGroups,
    group: ClassicGroup,
    member: ClassicMember,
    join: ParsedJoin,
    reason: str,
    builder: OutcomeBuilder,
) -> None:
    """Add a member to the join phase, or start one."""
    name = join.describe_sender(member.member_id)
    builder.add_event(MemberRejoined(group.group_id, group.generation_id, name, group.state.value))
    join.apply_to_member(group, member)
    park_join(group, member, join.context, builder)

    def trigger() -> Trigger:
        leads = member.member_id == group.leader_id and group.state is STABLE
        cause = RebalanceCause.LEADER_REJOINED if leads else RebalanceCause.METADATA_CHANGED
        sentence = f"{reason} during {group.state.value}; client reason: {join.reason}"
        return Trigger(cause, sentence, member.name, join.client_reason)

    rebalance_or_complete_join(groups, group, trigger, builder)


def _add_member(
    groups: ShardGroups, group: ClassicGroup, join: ParsedJoin, member_id: str, builder: OutcomeBuilder
) -> None:
    request, context = join.request, join.context
    client_id, client_host = intern(context.client_id), intern(context.client_host)
    name = MemberName(member_id, request.group_instance_id, client_id, client_host)
    member = ClassicMember(
        name,
        request.session_timeout_ms,
        join.rebalance_timeout_ms,
        group.share_protocols(join.protocols),
        connection_id=context.connection_id,
    )
    member.is_new = True
    was_pending = member_id in group.pending_members
    if was_pending:
        member.timer_deadline_ms = group.pending_members[member_id].deadline_ms
    state = group.state
    group.add_member(member, request.protocol_type)
    park_join(group, member, context, builder)
    if state is PREPARING_REBALANCE and group.initial_join is not None:
        group.new_member_added = True
    group.restart_session(member, builder, NEW_MEMBER_JOIN_TIMEOUT_MS)
    builder.add_event(MemberJoined(group.group_id, group.generation_id, name, state.value, was_pending))

    def trigger() -> Trigger:
        instance = "null" if member.group_instance_id is None else member.group_instance_id
        action = f"Adding new member {member_id} with group instance id {instance}"
        sentence = f"{action}; client reason: {join.reason}"
        return Trigger(RebalanceCause.MEMBER_JOINED, sentence, name, join.client_reason)

    rebalance_or_complete_join(groups, group, trigger, builder)


def replace_static_member(
    groups: ShardGroups, group: ClassicGroup, join: ParsedJoin, new_member_id: str, builder: OutcomeBuilder
) -> None:
    """Replace a static member: the sender of `join` has a known instance id, no member id, and gets
    `new_member_id`.
    """
    instance_id = join.request.group_instance_id
    assert instance_id is not None, new_member_id
    old_leader_id = group.leader_id
    member = _replace_member(group, instance_id, new_member_id, join, builder)
    join.apply_to_member(group, member)
    if group.state is STABLE and group.select_protocol() == group.protocol_name:
        _keep_generation(group, member, join, old_leader_id, builder)
        return
    park_join(group, member, join.context, builder)
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join_phase(groups, group, builder)
        return
    assert group.state in (STABLE, COMPLETING_REBALANCE), group.state
    if group.state is STABLE:
        reason = (
            f"Group's selectedProtocol will change because static member {new_member_id} with instance id "
            f"{instance_id} joined with change of protocol; client reason: {join.reason}"
        )
    else:
        # The leader may be computing an assignment for the old id; the new member would get nothing.
        reason = (
            f"Updating metadata for static member {new_member_id} with instance id {instance_id}; "
            f"client reason: {join.reason}"
        )
    actor = join.describe_sender(new_member_id)
    trigger = Trigger(RebalanceCause.STATIC_MEMBER_REPLACED, reason, actor, join.client_reason)
    prepare_rebalance(groups, group, trigger, builder)


def _replace_member(
    group: ClassicGroup, instance_id: str, new_member_id: str, join: ParsedJoin, builder: OutcomeBuilder
) -> ClassicMember:
    old = group.members[group.static_members[instance_id]]
    builder.add_event(
        StaticMemberReplaced(
            group.group_id,
            group.generation_id,
            join.describe_sender(new_member_id),
            old.member_id,
            group.state.value,
        )
    )
    group.answer_parked(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id, builder)
    group.cancel_session(old, builder)
    new = ClassicMember(
        MemberName(new_member_id, instance_id, old.client_id, old.client_host),
        old.session_timeout_ms,
        old.rebalance_timeout_ms,
        old.protocols,
        old.assignment,
    )
    new.settled_assignment = old.settled_assignment
    group.replace_member(old, new)
    group.restart_session(new, builder)
    return new


def _keep_generation(
    group: ClassicGroup,
    member: ClassicMember,
    join: ParsedJoin,
    old_leader_id: str | None,
    builder: OutcomeBuilder,
) -> None:
    assert group.leader_id is not None, group.group_id
    assert old_leader_id is not None, group.group_id
    assert member.group_instance_id is not None, member.member_id
    builder.write_fact(group_metadata_record(group))
    builder.add_event(
        RebalanceAvoided(group.group_id, group.generation_id, join.describe_sender(member.member_id))
    )
    if join.context.api_version >= SKIP_ASSIGNMENT_VERSION:
        leads = member.member_id == group.leader_id
        response = build_join_response(
            group, member.member_id, with_members=leads, leader=group.leader_id, skip_assignment=leads
        )
    else:
        # An old client would compute a new assignment as leader. With its former id as leader id, it acts as a
        # follower.
        response = build_join_response(group, member.member_id, with_members=False, leader=old_leader_id)
    builder.reply(join.context.waiter, response)
