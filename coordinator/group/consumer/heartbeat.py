"""ConsumerGroupHeartbeat: all that a member says, and all that it is told.

Everything is computed beside what the log says, as Kafka does: the group as it was, the member as it is to be, the
records in between. They are written when nothing can go wrong any more; a refusal leaves no trace.

By far the most heartbeats say nothing new, to members that have nothing to learn. For these one look is enough.

Source: Kafka's GroupMetadataManager, consumerGroupHeartbeat.
"""

from dataclasses import dataclass, field
from sys import intern
from typing import Final

from msgspec.structs import replace

from coordinator.group.consumer.awaited_target import AwaitedTarget
from coordinator.group.consumer.checks import check_heartbeat
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.events import (
    ConsumerHeartbeatRefused,
    ConsumerMemberJoined,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    MemberReconciled,
    TargetComputed,
)
from coordinator.group.consumer.fence import partition_count
from coordinator.group.consumer.find import joined_group, new_member_id
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.leave import leave_consumer_group
from coordinator.group.consumer.member import (
    JOINING_EPOCH,
    NO_TIMEOUT,
    Assigned,
    ConsumerMember,
    Target,
)
from coordinator.group.consumer.reconcile import Goal, Owned, reconciled
from coordinator.group.consumer.record import (
    assignment_epoch_record,
    current_record,
    current_tombstone,
    epoch_record,
    member_record,
    member_tombstone,
    partition_metadata_tombstone,
    target_record,
    target_tombstone,
)
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.regular_expressions import RegexChange, begin_resolution, regex_change
from coordinator.group.consumer.session import end_session, restart_session, watch_revocation
from coordinator.group.consumer.subscription import Subscription, assignors_with, preferred_assignor
from coordinator.group.consumer.target import (
    TARGET_WORK,
    AwaitsTarget,
    Change,
    Computed,
    TargetWork,
    compute_target,
    group_spec,
    is_small,
    may_compute,
    moved_partitions,
    subscribed_names,
)
from coordinator.group.consumer.who import Who, dynamic_member, static_member, throw_if_full
from coordinator.group.events import Event
from coordinator.group.groups import Groups
from coordinator.group.member_name import MemberName
from coordinator.group.modern.assignors.assignor import Assignment
from coordinator.group.refusal import tell_fenced
from coordinator.machine.outcome import Context, Fact, Now, Work
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

METADATA_LASTS_MS: Final = 2**31 - 1


@dataclass(slots=True)
class _Draft:
    """What a heartbeat comes to, until it is written. `epoch` is the group's; `topics_seen` says that its topics were
    looked at."""

    group: DurableConsumerGroup
    epoch: int
    metadata_hash: int
    is_homogeneous: bool | None = None
    topics_seen: bool = False
    facts: list[Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def consumer_group_heartbeat(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: Context, turn: Turn
) -> None:
    """Answer a ConsumerGroupHeartbeat with a ConsumerGroupHeartbeatResponse, or park it until a target is computed."""
    awaited = groups.targets.get(request.group_id)
    if awaited is not None:
        awaited.parked.append((request, context))
    elif not _has_nothing_to_hear(groups, request, context, turn):
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


def _has_nothing_to_hear(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: Context, turn: Turn
) -> bool:
    """Take the heartbeat of a member that says nothing new, to which there is nothing new to say; whether it was one.
    If not, nothing has changed."""
    group = groups.consumers.get(request.group_id)
    if group is None or request.member_epoch <= JOINING_EPOCH:
        return False
    durable = group.durable
    member = durable.members.get(request.member_id)
    if (
        member is None
        or request.member_epoch != member.member_epoch
        or request.subscribed_topic_names is not None
        or request.topic_partitions is not None
        or request.subscribed_topic_regex is not None
        or request.rebalance_timeout_ms != NO_TIMEOUT
        or request.server_assignor is not None
        or request.rack_id is not None
        or request.instance_id != member.instance_id
        or context.client_id != member.client_id
        or context.client_host != member.client_host
        or member.uses_classic_protocol
        or durable.epoch != durable.assignment_epoch
        or not member.is_reconciled_to(durable.epoch)
        or turn.now.wall_ms >= group.metadata_deadline_ms
        or durable.regex_members
    ):
        return False
    times = groups.consumer_times(group.group_id)
    restart_session(group, member.member_id, times.session_timeout_ms, context.connection_id, turn)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
    )
    turn.reply(context.waiter, response)
    return True


def _heartbeat(
    groups: Groups,
    request: ConsumerGroupHeartbeatRequest,
    context: Context,
    computed: Computed | None,
    turn: Turn,
) -> ConsumerGroupHeartbeatResponse:
    group_id, owned = request.group_id, request.topic_partitions
    durable, facts = joined_group(groups, request)
    draft = _Draft(durable, durable.epoch, durable.metadata_hash, facts=facts)
    throw_if_full(
        durable, request.member_id, request.instance_id, groups.consumer_config.group_consumer_max_size
    )
    member_id = request.member_id or new_member_id(context.new_member_uuid)
    if request.instance_id is None:
        who = dynamic_member(durable, member_id, request.member_epoch, owned)
    else:
        who = static_member(durable, member_id, request.instance_id, request.member_epoch, owned)
    _introduce(draft, who)
    updated = merged(who.member, request, context)
    if updated != who.member:
        draft.facts.append(member_record(group_id, updated))
    regex = regex_change(durable, who.member, updated)
    draft.facts.extend(regex.facts)
    _bump(groups, draft, who, updated, regex, turn.now)
    target_epoch, target = _target(groups, draft, who, updated, computed, turn.now)
    final = _reconcile(groups, draft, who, updated, regex, target_epoch, target, owned)
    group = _written(groups, draft, who, final, turn)
    times = groups.consumer_times(group_id)
    restart_session(group, member_id, times.session_timeout_ms, context.connection_id, turn)
    if final is not updated:
        watch_revocation(group, final, turn)
    begin_resolution(groups, group, regex.is_new, turn)
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


def _introduce(draft: _Draft, who: Who) -> None:
    """A new member, or one in a static member's place."""
    group_id, member, known = draft.group.group_id, who.member, who.known
    if known is not None and who.replaces:
        draft.facts += [
            current_tombstone(group_id, known.member_id),
            target_tombstone(group_id, known.member_id),
            member_tombstone(group_id, known.member_id),
            member_record(group_id, member),
            target_record(group_id, member.member_id, draft.group.target_of(known.member_id)),
            current_record(group_id, member),
        ]
        draft.events.append(
            ConsumerMemberReplaced(group_id, draft.epoch, member.name, old_member_id=known.member_id)
        )


def _bump(
    groups: Groups, draft: _Draft, who: Who, updated: ConsumerMember, regex: RegexChange, now: Now
) -> None:
    """Give the group a new epoch if its members subscribe to something else, prefer another assignor, or if their
    topics are not what they were."""
    group, known = draft.group, who.known
    otherwise = groups.consumer_config.assignors[0]
    names_changed = updated.subscribed_topic_names != who.member.subscribed_topic_names
    before = preferred_assignor(group.assignors, otherwise)
    assignor_changed = before != preferred_assignor(assignors_with(group, known, updated), otherwise)
    wanted = names_changed or regex.is_resolved or assignor_changed
    soft = groups.consumers.get(group.group_id)
    if not wanted and soft is not None and now.wall_ms < soft.metadata_deadline_ms:
        return
    subscription = Subscription.with_member(group, known, updated)
    metadata_hash = subscription.metadata_hash(groups.topics)
    draft.is_homogeneous = subscription.is_homogeneous
    draft.topics_seen = True
    if wanted or metadata_hash != group.metadata_hash:
        draft.epoch, draft.metadata_hash = group.epoch + 1, metadata_hash
        draft.facts.append(epoch_record(group.group_id, draft.epoch, metadata_hash))
        cause = EpochCause.TOPICS_CHANGED
        if known is None:
            cause = EpochCause.MEMBER_JOINED
        elif names_changed or regex.is_resolved:
            cause = EpochCause.SUBSCRIPTION_CHANGED
        elif assignor_changed:
            cause = EpochCause.ASSIGNOR_CHANGED
        draft.events.append(
            EpochBumped(
                group.group_id, draft.epoch, member=updated.name, cause=cause, metadata_hash=metadata_hash
            )
        )
    if group.partition_metadata is not None:
        draft.facts.append(partition_metadata_tombstone(group.group_id))


def _target(
    groups: Groups,
    draft: _Draft,
    who: Who,
    updated: ConsumerMember,
    computed: Computed | None,
    now: Now,
) -> tuple[int, Target]:
    """The target that the member is to go to, with its epoch: a new one where that is due."""
    group, known = draft.group, who.known
    last = group.target_of(updated.member_id if known is None else known.member_id)
    interval_ms = groups.consumer_times(group.group_id).assignment_interval_ms
    is_due = group.assignment_epoch < draft.epoch
    if not is_due or not may_compute(group.assignment_timestamp_ms, interval_ms, now.wall_ms):
        return group.assignment_epoch, last
    change = Change(known, updated, known.member_id if known is not None and who.replaces else None)
    is_homogeneous = draft.is_homogeneous
    if is_homogeneous is None:
        is_homogeneous = Subscription(group).is_homogeneous
    assignor = preferred_assignor(assignors_with(group, known, updated), groups.consumer_config.assignors[0])
    work = TargetWork(
        group.group_id,
        assignor,
        group_spec(group, change, is_homogeneous, groups.topics),
        group.changes,
        groups.topics,
    )
    assignment = _assignment_of(work, computed, draft.epoch)
    moved = 0
    for member_id, spec in work.spec.members.items():
        target = assignment[member_id]
        moved += moved_partitions(target, spec.assigned)
        is_known = member_id in group.targets or (
            change.replaced is not None and member_id == updated.member_id
        )
        if not is_known or target != spec.assigned:
            draft.facts.append(target_record(group.group_id, member_id, target))
    draft.facts.append(assignment_epoch_record(group.group_id, draft.epoch, now.wall_ms))
    draft.events.append(
        TargetComputed(
            group.group_id,
            draft.epoch,
            assignor=assignor,
            members=len(work.spec.members),
            partitions=sum(work.spec.partitions.values()),
            moved=moved,
        )
    )
    return draft.epoch, assignment[updated.member_id]


def _assignment_of(work: TargetWork, computed: Computed | None, epoch: int) -> Assignment:
    if computed is not None and computed.is_for(work):
        if computed.assignment is None:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {computed.error}"
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return computed.assignment
    if not is_small(work.spec):
        raise AwaitsTarget(work)
    return compute_target(work)


def _reconcile(
    groups: Groups,
    draft: _Draft,
    who: Who,
    updated: ConsumerMember,
    regex: RegexChange,
    target_epoch: int,
    target: Target,
    owned: Owned | None,
) -> ConsumerMember:
    """The member after its next step, with the record of that."""
    group, image = draft.group, groups.topics
    has_changed = updated.subscribed_topic_names != who.member.subscribed_topic_names or regex.is_changed
    if not has_changed and updated.is_reconciled_to(target_epoch):
        return updated
    names = subscribed_names(group, updated)

    def is_subscribed(topic_id: bytes) -> bool:
        topic = image.by_id.get(topic_id)
        return topic is not None and topic.name in names

    def is_held(topic_id: bytes, partition: int) -> bool:
        return group.holder_of(topic_id, partition) is not None

    goal = Goal(target_epoch, target, is_subscribed, is_held, bool(names), has_changed)
    final = reconciled(updated, goal, owned)
    if final == updated:
        return updated
    draft.facts.append(current_record(group.group_id, final))
    draft.events.append(
        MemberReconciled(
            group.group_id,
            draft.epoch,
            final.name,
            member_epoch=final.member_epoch,
            state=final.state.name,
            assigned=partition_count(final.assigned),
            pending=partition_count(final.pending),
            missing=sum(
                len(set(partitions) - final.assigned.get(topic_id, {}).keys())
                for topic_id, partitions in target.items()
                if is_subscribed(topic_id)
            ),
        )
    )
    return final


def _written(groups: Groups, draft: _Draft, who: Who, final: ConsumerMember, turn: Turn) -> ConsumerGroup:
    """All of it, made true; nothing of it can fail any more."""
    group_id = draft.group.group_id
    if group_id not in groups.consumers and group_id in groups.by_id:
        groups.give_up(group_id, turn)
    if who.known is None:
        turn.tell(ConsumerMemberJoined(group_id, draft.group.epoch, final.name))
    for fact in draft.facts:
        turn.write(fact)
    for event in draft.events:
        turn.tell(event)
    group = groups.consumers.get(group_id) or groups.add_consumer(group_id)
    if draft.topics_seen:
        group.metadata_deadline_ms = turn.now.wall_ms + METADATA_LASTS_MS
    if who.known is not None and who.replaces:
        end_session(group, who.known.member_id, turn)
    return group


def _assignment(assigned: Assigned) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
