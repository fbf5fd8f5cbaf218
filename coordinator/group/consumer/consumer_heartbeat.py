"""ConsumerGroupHeartbeat: join, heartbeat, leave, and the fast path of a heartbeat that changes nothing."""

from sys import intern

from msgspec.structs import replace

from coordinator.core.outcome import Context, OutcomeBuilder, Work
from coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    extend_session,
    restart_consumer_session,
    watch_revocation,
)
from coordinator.group.consumer.consumer_member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_TIMEOUT,
    NOTHING_ASSIGNED,
    AssignedPartitions,
    ConsumerMember,
    current_record,
    member_record,
)
from coordinator.group.consumer.group_subscription import changes_preferred_assignor
from coordinator.group.consumer.heartbeat_sender import (
    create_member_id,
    find_dynamic_sender,
    find_joined_group,
    find_left_group,
    find_static_sender,
    require_static_member,
    throw_if_full,
)
from coordinator.group.consumer.heartbeat_validation import (
    GroupApiError,
    build_unknown_member_error,
    validate_heartbeat,
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
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import ConsumerHeartbeatRefused, ConsumerMemberLeft, EpochCause
from coordinator.group.group_request_rules import add_fenced_event
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def consumer_group_heartbeat(
    groups: ShardGroups, request: ConsumerGroupHeartbeatRequest, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ConsumerGroupHeartbeat with a ConsumerGroupHeartbeatResponse, or park it until a target is
    computed."""
    awaited = groups.pending_targets.get(request.group_id)
    if awaited is not None:
        awaited.parked.append((request, context))
    else:
        answer_heartbeat(groups, request, context, builder)


def answer_heartbeat(
    groups: ShardGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    builder: OutcomeBuilder,
    computed: ComputedTarget | None = None,
) -> None:
    """Answer a heartbeat of a group without a pending target, or park it if it needs a target that must be computed
    outside the call. `computed` is the target for a heartbeat that was parked.
    """
    try:
        refusal = validate_heartbeat(request, context.api_version, groups.consumer_config)
        if refusal is not None:
            raise refusal
        if request.member_epoch < JOINING_EPOCH:
            response = leave_consumer_group(groups, request, builder)
        else:
            response = _heartbeat(groups, request, context, computed, builder)
    except GroupApiError as refusal:
        response = build_error_response(request, context.api_version, refusal.error, refusal.message)
        _add_refused_event(groups, request, context, refusal, builder)
    except TargetNotReady as not_ready:
        groups.pending_targets[request.group_id] = PendingTarget(not_ready.work, [(request, context)])
        builder.add_work(Work(TARGET_WORK, not_ready.work))
        return
    builder.reply(context.waiter, response)


def _add_refused_event(
    groups: ShardGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    refusal: GroupApiError,
    builder: OutcomeBuilder,
) -> None:
    sender = MemberName(request.member_id, request.instance_id, context.client_id, context.client_host)
    group = groups.by_id.get(request.group_id)
    if group is not None and refusal.error is ErrorCode.FENCED_INSTANCE_ID:
        add_fenced_event(group, sender, type(request), builder)
    builder.add_event(
        ConsumerHeartbeatRefused(
            request.group_id,
            request.member_epoch,
            sender,
            refusal.error,
            "" if group is None else group.state_name,
            None,
            None,
            reason=refusal.message or "",
        )
    )


def _heartbeat(
    groups: ShardGroups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    computed: ComputedTarget | None,
    builder: OutcomeBuilder,
) -> ConsumerGroupHeartbeatResponse:
    group_id, owned = request.group_id, request.topic_partitions
    durable, facts = find_joined_group(groups, request, builder)
    update = PendingUpdate(durable, durable.epoch, durable.metadata_hash, facts=facts)
    throw_if_full(
        durable, request.member_id, request.instance_id, groups.consumer_config.group_consumer_max_size
    )
    member_id = request.member_id or create_member_id(context.new_member_uuid)
    if request.instance_id is None:
        sender = find_dynamic_sender(durable, member_id, request.member_epoch, owned)
    else:
        sender = find_static_sender(durable, member_id, request.instance_id, request.member_epoch, owned)
    replace_static_consumer_member(update, sender)
    updated = merge_member(sender.member, request, context)
    if updated != sender.member:
        update.facts.append(member_record(group_id, updated))
    regex = compute_regex_change(durable, sender.member, updated)
    update.facts.extend(regex.facts)
    resolution = find_due_resolution(groups, durable, sender.member, updated, regex, builder.now)
    bump_group_epoch(groups, update, sender, updated, regex, builder.now)
    target_epoch, target = find_or_compute_target(groups, update, sender, updated, computed, builder.now)
    final = reconcile_sender(groups, update, sender, updated, regex, target_epoch, target, owned)
    throw_if_too_large(groups, update)
    group = write_update(groups, update, sender, final, builder)
    times = groups.resolve_consumer_times(group_id)
    restart_consumer_session(group, member_id, times.session_timeout_ms, context.connection_id, builder)
    if final is not updated:
        watch_revocation(group, final, builder)
    start_resolution(group, resolution, context, builder)
    is_full = (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    includes_assignment = (
        request.member_epoch == JOINING_EPOCH or is_full or final.assigned != sender.member.assigned
    )
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=final.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
        assignment=_build_assignment(final.assigned) if includes_assignment else None,
    )


def merge_member(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerMember:
    """Return the member with the fields of its request; missing fields stay. It now speaks the consumer
    protocol.
    """
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    new = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        client_id=intern(context.client_id),
        client_host=intern(context.client_host),
        server_assignor=(
            member.server_assignor if request.server_assignor is None else request.server_assignor
        ),
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else frozenset(map(intern, names))
        ),
        subscribed_topic_regex=(
            member.subscribed_topic_regex
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex
        ),
        classic=None,
    )
    return member if new == member else new


def _build_assignment(assigned: AssignedPartitions) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def try_consumer_heartbeat(
    groups: ShardGroups, request: ConsumerGroupHeartbeatRequest, context: Context, monotonic_ms: int
) -> ConsumerGroupHeartbeatResponse | None:
    """Answer a heartbeat without changes from a member that has reached its target.

    Returns:
        The response. None for any other heartbeat: nothing has changed, and `consumer_group_heartbeat` must answer
        it.
    """
    group = groups.find_typed_group(ConsumerGroup, request.group_id)
    if (
        group is None
        or request.group_id in groups.pending_targets
        or monotonic_ms >= group.metadata_deadline_ms
    ):
        return None
    durable = group.durable
    member = durable.members.get(request.member_id)
    if (
        member is None
        or not _says_nothing_new(request, context, member)
        or member.uses_classic_protocol
        or durable.epoch != durable.assignment_epoch
        or not member.is_reconciled_to(durable.epoch)
        or durable.regex_members
        or (
            len(durable.assignors) > 1
            and changes_preferred_assignor(durable, member, member, groups.consumer_config.assignors[0])
        )
    ):
        return None
    times = groups.resolve_consumer_times(group.group_id)
    session = group.sessions[member.member_id]
    if not extend_session(session, times.session_timeout_ms, context.connection_id, monotonic_ms):
        return None
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
    )


def _says_nothing_new(
    request: ConsumerGroupHeartbeatRequest, context: Context, member: ConsumerMember
) -> bool:
    return (
        request.member_epoch == member.member_epoch > JOINING_EPOCH
        and request.subscribed_topic_names is None
        and request.topic_partitions is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == NO_TIMEOUT
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == member.instance_id
        and context.client_id == member.client_id
        and context.client_host == member.client_host
    )


def leave_consumer_group(
    groups: ShardGroups, request: ConsumerGroupHeartbeatRequest, builder: OutcomeBuilder
) -> ConsumerGroupHeartbeatResponse:
    """Remove the sender. A static member that leaves temporarily (member epoch -2) stays in the group and keeps its
    partitions until its session ends.

    Raises:
        GroupApiError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group = find_left_group(groups, request.group_id)
    durable, member_id = group.durable, request.member_id
    returns = request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH
    if request.instance_id is None:
        member = durable.members.get(member_id)
        if member is None:
            raise build_unknown_member_error(group.group_id, member_id)
    else:
        holder = durable.find_static_member(request.instance_id)
        member = require_static_member(holder, member_id, request.instance_id)
    builder.add_event(ConsumerMemberLeft(group.group_id, durable.epoch, member.name, returns=returns))
    if returns:
        away = replace(
            member,
            member_epoch=LEAVING_STATIC_EPOCH,
            pending=NOTHING_ASSIGNED,
            assigned=_reset_assignment_epochs(member.assigned),
        )
        builder.write_fact(current_record(group.group_id, away))
    else:
        remove_members(groups, group, [member], EpochCause.MEMBER_LEFT, builder)
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)


def _reset_assignment_epochs(assigned: AssignedPartitions) -> AssignedPartitions:
    """Reset the epochs of partitions, so that a returning member may commit for all of them."""
    return {topic_id: dict.fromkeys(of_topic, 0) for topic_id, of_topic in assigned.items()}
