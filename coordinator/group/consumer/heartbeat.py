"""ConsumerGroupHeartbeat: all that a member says, and all that it is told.

Everything is computed beside what the log says, as Kafka does: the group as it was, the member as it is to be, the
records in between. They are written when nothing can go wrong any more; a refusal leaves no trace.

By far the most heartbeats say nothing new, to members that have nothing to learn: see `beat.py`.

Source: Kafka's GroupMetadataManager, consumerGroupHeartbeat.
"""

from sys import intern

from msgspec.structs import replace

from coordinator.group.consumer.awaited_target import AwaitedTarget
from coordinator.group.consumer.bump import bump
from coordinator.group.consumer.checks import check_heartbeat
from coordinator.group.consumer.draft import Draft, throw_if_too_large, write_draft
from coordinator.group.consumer.events import (
    ConsumerHeartbeatRefused,
)
from coordinator.group.consumer.find import joined_group, new_member_id
from coordinator.group.consumer.leave import leave_consumer_group
from coordinator.group.consumer.member import (
    JOINING_EPOCH,
    NO_TIMEOUT,
    Assigned,
    ConsumerMember,
)
from coordinator.group.consumer.new_target import target_for
from coordinator.group.consumer.record import member_record
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.regular_expressions import begin_resolution, due_resolution, regex_change
from coordinator.group.consumer.session import restart_session, watch_revocation
from coordinator.group.consumer.static_member import take_place
from coordinator.group.consumer.step import make_step
from coordinator.group.consumer.target import (
    TARGET_WORK,
    AwaitsTarget,
    Computed,
)
from coordinator.group.consumer.who import dynamic_member, static_member, throw_if_full
from coordinator.group.groups import Groups
from coordinator.group.member_name import MemberName
from coordinator.group.refusal import tell_fenced
from coordinator.machine.outcome import Context, Work
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def consumer_group_heartbeat(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: Context, turn: Turn
) -> None:
    """Answer a ConsumerGroupHeartbeat with a ConsumerGroupHeartbeatResponse, or park it until a target is
    computed."""
    awaited = groups.targets.get(request.group_id)
    if awaited is not None:
        awaited.parked.append((request, context))
    else:
        answer_heartbeat(groups, request, context, turn)


def answer_heartbeat(
    groups: Groups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    turn: Turn,
    computed: Computed | None = None,
) -> None:
    """The same for a request that waits for nobody. In: the target that was computed for it."""
    try:
        refusal = check_heartbeat(request, context.api_version, groups.consumer_config)
        if refusal is not None:
            raise refusal
        if request.member_epoch < JOINING_EPOCH:
            response = leave_consumer_group(groups, request, turn)
        else:
            response = _heartbeat(groups, request, context, computed, turn)
    except Refusal as refusal:
        response = ConsumerGroupHeartbeatResponse(
            error_code=refusal.error, error_message=refusal.message, member_id=None
        )
        _tell_refusal(groups, request, context, refusal, turn)
    except AwaitsTarget as awaits:
        groups.targets[request.group_id] = AwaitedTarget(awaits.work, [(request, context)])
        turn.begin(Work(TARGET_WORK, awaits.work))
        return
    turn.reply(context.waiter, response)


def _tell_refusal(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: Context, refusal: Refusal, turn: Turn
) -> None:
    sender = MemberName(request.member_id, request.instance_id, context.client_id, context.client_host)
    group = groups.find(request.group_id)
    if group is not None and refusal.error is ErrorCode.FENCED_INSTANCE_ID:
        tell_fenced(group, sender, type(request), turn)
    turn.tell(
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
    groups: Groups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    computed: Computed | None,
    turn: Turn,
) -> ConsumerGroupHeartbeatResponse:
    group_id, owned = request.group_id, request.topic_partitions
    durable, facts = joined_group(groups, request, turn)
    draft = Draft(durable, durable.epoch, durable.metadata_hash, facts=facts)
    throw_if_full(
        durable, request.member_id, request.instance_id, groups.consumer_config.group_consumer_max_size
    )
    member_id = request.member_id or new_member_id(context.new_member_uuid)
    if request.instance_id is None:
        who = dynamic_member(durable, member_id, request.member_epoch, owned)
    else:
        who = static_member(durable, member_id, request.instance_id, request.member_epoch, owned)
    take_place(draft, who)
    updated = merged(who.member, request, context)
    if updated != who.member:
        draft.facts.append(member_record(group_id, updated))
    regex = regex_change(durable, who.member, updated)
    draft.facts.extend(regex.facts)
    resolution = due_resolution(groups, durable, who.member, updated, regex, turn.now)
    bump(groups, draft, who, updated, regex, turn.now)
    target_epoch, target = target_for(groups, draft, who, updated, computed, turn.now)
    final = make_step(groups, draft, who, updated, regex, target_epoch, target, owned)
    throw_if_too_large(groups, draft)
    group = write_draft(groups, draft, who, final, turn)
    times = groups.consumer_times(group_id)
    restart_session(group, member_id, times.session_timeout_ms, context.connection_id, turn)
    if final is not updated:
        watch_revocation(group, final, turn)
    begin_resolution(group, resolution, context, turn)
    is_full = (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    is_told = request.member_epoch == JOINING_EPOCH or is_full or final.assigned != who.member.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=final.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
        assignment=_assignment(final.assigned) if is_told else None,
    )


def merged(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerMember:
    """The member as it says now that it is; what it does not say stays. It speaks the consumer protocol now."""
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


def _assignment(assigned: Assigned) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
