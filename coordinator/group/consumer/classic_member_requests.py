"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic-protocol members of a consumer group."""

from sys import intern

from msgspec.structs import replace

from coordinator.core.outcome import Context, OutcomeBuilder, Work
from coordinator.group.classic.classic_heartbeat import RESPONSES
from coordinator.group.classic.classic_join import ParsedJoin, join_classic_group, parse_join
from coordinator.group.classic.classic_leave import answer_leave, find_leaving_members
from coordinator.group.classic.classic_member import NOT_PROVIDED
from coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    await_join,
    await_sync,
    end_sync,
    restart_consumer_session,
)
from coordinator.group.consumer.consumer_member import NO_TIMEOUT, ConsumerMember, MemberState, member_record
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.group_conversion import (
    MemberReplacement,
    convert_to_topic_ids,
    downgrade_group,
    encode_member_assignment,
    may_downgrade_after_replacement,
)
from coordinator.group.consumer.heartbeat_sender import (
    HeartbeatSender,
    create_member_id,
    create_successor,
    require_static_member,
    throw_if_full,
)
from coordinator.group.consumer.heartbeat_validation import (
    MAX_SUBSCRIBED_TOPICS,
    MAX_SUBSCRIPTION_ELEMENTS,
    GroupApiError,
)
from coordinator.group.consumer.member_removal import remove_members
from coordinator.group.consumer.pending_update import (
    PendingUpdate,
    bump_group_epoch,
    find_or_compute_target,
    reconcile_sender,
    replace_static_consumer_member,
    throw_if_too_large,
    write_update,
)
from coordinator.group.consumer.reconciliation import OwnedPartitions
from coordinator.group.consumer.regex_resolution import (
    compute_regex_change,
    find_due_resolution,
    start_resolution,
)
from coordinator.group.consumer.target_assignment import (
    TARGET_WORK,
    ComputedTarget,
    PendingTarget,
    TargetNotReady,
)
from coordinator.group.event_details import RebalanceCause, Trigger
from coordinator.group.group_event_types import ConsumerMemberLeft, EpochCause
from coordinator.group.group_request_rules import (
    add_refused_event,
    build_join_error,
    check_group_id,
    check_join,
    check_sync,
    refuse_request,
)
from coordinator.group.shard_groups import ShardGroups
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_subscription_within,
)
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.primitives import Malformed, TooManyElements
from protocol.records.group_record_schemas import ClassicMemberMetadata, ClassicProtocol

REQUIRES_MEMBER_ID_VERSION = 4


def join_classic_member(
    groups: ShardGroups,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
    computed: ComputedTarget | None = None,
) -> None:
    """Answer a JoinGroup with a JoinGroupResponse, or park it until a target is computed. `computed` is the target
    for a JoinGroup that was parked. A group without members becomes a classic one. An invalid request is refused as
    by a classic group.
    """
    if group.is_empty or check_join(request, groups.config) is not ErrorCode.NONE:
        join_classic_group(groups, None, request, context, builder)
        return
    join = parse_join(request, context)
    try:
        response = _join(groups, group, join, computed, builder)
    except GroupApiError as refusal:
        response = build_join_error(refusal.error, "", context.api_version)
        add_refused_event(group, request, context, refusal.error, builder)
    except TargetNotReady as not_ready:
        groups.pending_targets[group.group_id] = PendingTarget(not_ready.work, [(request, context)])
        builder.add_work(Work(TARGET_WORK, not_ready.work))
        return
    builder.reply(context.waiter, response)


def _join(
    groups: ShardGroups,
    group: ConsumerGroup,
    join: ParsedJoin,
    computed: ComputedTarget | None,
    builder: OutcomeBuilder,
) -> JoinGroupResponse:
    request, context, durable = join.request, join.context, group.durable
    member_id = request.member_id or create_member_id(context.new_member_uuid)
    _throw_if_not_admissible(groups, group, join, member_id)
    is_static = request.group_instance_id is not None
    if not request.member_id and not is_static and context.api_version >= REQUIRES_MEMBER_ID_VERSION:
        return build_join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)
    sender = _find_sender(durable, join, member_id)
    subscription = _parse_subscription(join, groups.config.message_max_bytes)
    update = PendingUpdate(durable, durable.epoch, durable.metadata_hash)
    replace_static_consumer_member(update, sender)
    updated = _merge_member(sender.member, join, subscription)
    if updated != sender.member:
        update.facts.append(member_record(group.group_id, updated))
    regex = compute_regex_change(durable, sender.member, updated)
    update.facts.extend(regex.facts)
    resolution = find_due_resolution(groups, durable, sender.member, updated, regex, builder.now)
    bump_group_epoch(groups, update, sender, updated, regex, builder.now)
    owned = _find_owned_partitions(groups, subscription)
    if (
        sender.known is not None
        and is_static
        and may_downgrade_after_replacement(groups, group, sender.known)
    ):
        target = durable.assignment_epoch, durable.find_target(sender.known.member_id)
        is_behind = durable.assignment_epoch < update.epoch
        final = (
            updated if is_behind else reconcile_sender(groups, update, sender, updated, regex, *target, owned)
        )
        trigger = _build_trigger(group, final) if is_behind else None
        downgrade_group(
            groups, group, (), trigger, builder, MemberReplacement(final, sender.known, update.facts)
        )
    else:
        target = find_or_compute_target(groups, update, sender, updated, computed, builder.now)
        final = reconcile_sender(groups, update, sender, updated, regex, *target, owned)
        throw_if_too_large(groups, update)
        write_update(groups, update, sender, final, builder)
        timeout_ms = request.session_timeout_ms
        restart_consumer_session(group, member_id, timeout_ms, context.connection_id, builder)
        await_sync(group, member_id, join.rebalance_timeout_ms, builder)
        start_resolution(group, resolution, context, builder)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=final.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=join.protocols[0][0],
        leader="",
        member_id=member_id,
    )


def _throw_if_not_admissible(
    groups: ShardGroups, group: ConsumerGroup, join: ParsedJoin, member_id: str
) -> None:
    """Check the protocols and the size of the group.

    Raises:
        GroupApiError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED.
    """
    config, durable = groups.consumer_config, group.durable
    if not config.migration_policy.admits_classic_members:
        message = (
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
            "migration is disabled."
        )
        raise GroupApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    instance_id = join.request.group_instance_id
    throw_if_full(durable, member_id, instance_id, config.group_consumer_max_size)
    is_supported = any(
        durable.classic_protocols.get(name, 0) == durable.classic_members for name, _ in join.protocols
    )
    if join.request.protocol_type != PROTOCOL_TYPE or not is_supported:
        message = f"Member {member_id}'s protocols are not supported."
        raise GroupApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _find_sender(group: DurableConsumerGroup, join: ParsedJoin, member_id: str) -> HeartbeatSender:
    """Return the sender of a JoinGroup.

    A member with an id counts as a member, even if groupd did not generate the id. A static member without an id
    replaces its predecessor.

    Raises:
        GroupApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    instance_id = join.request.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        return (
            HeartbeatSender(ConsumerMember(member_id), None)
            if member is None
            else HeartbeatSender(member, member)
        )
    holder = group.find_static_member(instance_id)
    if join.request.member_id:
        holder = require_static_member(holder, member_id, instance_id)
        return HeartbeatSender(holder, holder)
    if holder is None:
        return HeartbeatSender(ConsumerMember(member_id), None)
    return HeartbeatSender(create_successor(holder, member_id), holder)


def _parse_subscription(join: ParsedJoin, most_bytes: int) -> ConsumerProtocolSubscription:
    """Parse the subscription in the member's first protocol.

    Raises:
        GroupApiError: INCONSISTENT_GROUP_PROTOCOL; INVALID_REQUEST for too many names or owned partitions;
            UNKNOWN_SERVER_ERROR if the record cannot fit into the log.
    """
    metadata = join.protocols[0][1]
    if len(metadata) > most_bytes:
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    try:
        subscription = decode_subscription_within(metadata, MAX_SUBSCRIPTION_ELEMENTS)
    except TooManyElements as error:
        raise GroupApiError(ErrorCode.INVALID_REQUEST, None) from error
    except Malformed as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise GroupApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error
    if len(subscription.topics) > MAX_SUBSCRIBED_TOPICS:
        raise GroupApiError(ErrorCode.INVALID_REQUEST, None)
    return subscription


def _merge_member(
    member: ConsumerMember, join: ParsedJoin, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    """Return the member with the fields of its request. It now speaks the classic protocol, which has no regular
    expressions.
    """
    request, context = join.request, join.context
    timeout_ms = join.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        client_id=intern(context.client_id),
        client_host=intern(context.client_host),
        subscribed_topic_names=frozenset(map(intern, subscription.topics)),
        subscribed_topic_regex="",
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in join.protocols
            ],
        ),
    )


def _find_owned_partitions(
    groups: ShardGroups, subscription: ConsumerProtocolSubscription
) -> OwnedPartitions:
    owned = convert_to_topic_ids(subscription.owned_partitions, groups.topics)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in owned.items()
    ]


def _build_trigger(group: ConsumerGroup, joined: ConsumerMember) -> Trigger:
    sentence = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
    return Trigger(RebalanceCause.STATIC_MEMBER_REPLACED, sentence, joined.name)


def sync_classic_member(
    groups: ShardGroups,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a SyncGroup with a SyncGroupResponse: the partitions that the member may own now."""
    error = check_sync(request, context.api_version)
    if error is ErrorCode.NONE:
        error = _sync_error(group, request, builder)
    if error is not ErrorCode.NONE:
        refuse_request(group, request, context, error, builder)
        return
    member = group.durable.members[request.member_id]
    assert member.classic is not None, member.member_id
    end_sync(group, member.member_id, builder)
    restart_consumer_session(
        group, member.member_id, member.classic.session_timeout_ms, context.connection_id, builder
    )
    metadata = member.classic.supported_protocols[0].metadata
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_member_assignment(member.assigned, metadata, groups.topics),
    )
    builder.reply(context.waiter, response)


def _sync_error(group: ConsumerGroup, request: SyncGroupRequest, builder: OutcomeBuilder) -> ErrorCode:
    error = check_classic_sender(group, request.member_id, request.group_instance_id, request.generation_id)
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
        await_join(group, member, builder)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_classic_sender(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    """Check that the sender is a member of the classic protocol, with this instance id, in this generation. Return
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION if not.
    """
    if instance_id is not None:
        holder = group.find_static_member_id(instance_id)
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


def heartbeat_classic_member(
    groups: ShardGroups,
    group: ConsumerGroup,
    request: HeartbeatRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a Heartbeat with a HeartbeatResponse: REBALANCE_IN_PROGRESS if the member must join again."""
    error = check_group_id(request)
    if error is ErrorCode.NONE:
        sent = (request.member_id, request.group_instance_id, request.generation_id)
        error = check_classic_sender(group, *sent)
    if error is not ErrorCode.NONE:
        refuse_request(group, request, context, error, builder)
        return
    member = group.durable.members[request.member_id]
    assert member.classic is not None, member.member_id
    timeout_ms = member.classic.session_timeout_ms
    restart_consumer_session(group, member.member_id, timeout_ms, context.connection_id, builder)
    if _has_to_rejoin(group, member):
        await_join(group, member, builder)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    builder.reply(context.waiter, RESPONSES[error])


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.durable.assignment_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not _waits_for_others(group, member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether other members still hold partitions of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {})
        and partition in group.durable.find_holders(topic_id)
        for topic_id, partitions in group.durable.find_target(member.member_id).items()
        for partition in partitions
    )


def remove_leaving_members(
    groups: ShardGroups,
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a LeaveGroup with a LeaveGroupResponse. It may name members of either protocol; all departures
    together bump the epoch once.
    """
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        refuse_request(group, request, context, error, builder)
        return
    left: dict[str, ConsumerMember] = {}
    errors: list[tuple[MemberIdentity, ErrorCode]] = []
    for identity in find_leaving_members(request, context.api_version):
        member_id, error = _find_leaving_member(group, identity)
        if member_id is not None:
            member = left[member_id] = group.durable.members[member_id]
            reason = NOT_PROVIDED if identity.reason is None else identity.reason
            builder.add_event(
                ConsumerMemberLeft(
                    group.group_id, group.durable.epoch, member.name, returns=False, reason=reason
                )
            )
        errors.append((identity, error))
    if left:
        try:
            remove_members(groups, group, list(left.values()), EpochCause.MEMBER_LEFT, builder)
        except GroupApiError as refusal:
            refuse_request(group, request, context, refusal.error, builder)
            return
    answer_leave(errors, context, builder)


def _find_leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> tuple[str | None, ErrorCode]:
    """Return the id of the leaving member, or None and an error."""
    if identity.group_instance_id is None:
        is_member = identity.member_id in group.durable.members
        return (identity.member_id, ErrorCode.NONE) if is_member else (None, ErrorCode.UNKNOWN_MEMBER_ID)
    holder = group.find_static_member_id(identity.group_instance_id)
    if holder is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    if identity.member_id not in ("", holder):
        return None, ErrorCode.FENCED_INSTANCE_ID
    return holder, ErrorCode.NONE
