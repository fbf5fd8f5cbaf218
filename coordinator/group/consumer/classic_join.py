"""JoinGroup of a member of the classic protocol to a consumer group that has members.

Nobody is waited for: the sender is told at once its generation, which is its epoch, and asks for its assignment
with SyncGroup. There is no leader among the members.

Source: Kafka's GroupMetadataManager, classicGroupJoinToConsumerGroup.
"""

from sys import intern

from msgspec.structs import replace

from coordinator.group.classic.join_request import Join, read_join
from coordinator.group.classic.responses import join_error
from coordinator.group.consumer.awaited_target import AwaitedTarget
from coordinator.group.consumer.bump import bump
from coordinator.group.consumer.checks import MOST_NAMES
from coordinator.group.consumer.downgrade import Joined, downgrade, may_downgrade_with
from coordinator.group.consumer.draft import Draft, throw_if_too_large, write_draft
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.embedded_protocol import by_topic_id
from coordinator.group.consumer.find import new_member_id
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import NO_TIMEOUT, ConsumerMember
from coordinator.group.consumer.new_target import target_for
from coordinator.group.consumer.reconcile import Owned
from coordinator.group.consumer.record import member_record
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.regular_expressions import (
    begin_resolution,
    due_resolution,
    regex_change,
)
from coordinator.group.consumer.session import await_sync, restart_session
from coordinator.group.consumer.static_member import take_place
from coordinator.group.consumer.step import make_step
from coordinator.group.consumer.target import TARGET_WORK, AwaitsTarget, Computed
from coordinator.group.consumer.who import Who, known_static_member, successor_of, throw_if_full
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import RebalanceCause, Trigger
from coordinator.group.refusal import tell_refusal
from coordinator.machine.outcome import Context, Work
from coordinator.machine.turn import Turn
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_subscription,
)
from protocol.errors import ErrorCode
from protocol.malformed import Malformed
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.records.consumer_group import ClassicMemberMetadata, ClassicProtocol

REQUIRES_MEMBER_ID_VERSION = 4


def join_member(
    groups: Groups,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    context: Context,
    turn: Turn,
    computed: Computed | None = None,
) -> None:
    """Answer a JoinGroup with a JoinGroupResponse, or park it until a target is computed. In: the target that was
    computed for it."""
    join = read_join(request, context)
    try:
        response = _join(groups, group, join, computed, turn)
    except Refusal as refusal:
        response = join_error(refusal.error, "", context.api_version)
        tell_refusal(groups.by_id[group.group_id], request, context, refusal.error, turn)
    except AwaitsTarget as awaits:
        groups.targets[group.group_id] = AwaitedTarget(awaits.work, [(request, context)])
        turn.begin(Work(TARGET_WORK, awaits.work))
        return
    turn.reply(context.waiter, response)


def _join(
    groups: Groups, group: ConsumerGroup, join: Join, computed: Computed | None, turn: Turn
) -> JoinGroupResponse:
    request, context, durable = join.request, join.context, group.durable
    member_id = request.member_id or new_member_id(context.new_member_uuid)
    _throw_if_unfit(groups, group, join, member_id)
    is_static = request.group_instance_id is not None
    if not request.member_id and not is_static and context.api_version >= REQUIRES_MEMBER_ID_VERSION:
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)
    who = _sender(durable, join, member_id)
    subscription = _subscription(join, groups.config.message_max_bytes)
    draft = Draft(durable, durable.epoch, durable.metadata_hash)
    take_place(draft, who)
    updated = _merged(who.member, join, subscription)
    if updated != who.member:
        draft.facts.append(member_record(group.group_id, updated))
    regex = regex_change(durable, who.member, updated)
    draft.facts.extend(regex.facts)
    resolution = due_resolution(groups, durable, who.member, updated, regex, turn.now)
    bump(groups, draft, who, updated, regex, turn.now)
    owned = _owned(groups, subscription)
    if who.known is not None and is_static and may_downgrade_with(groups, group, who.known):
        target = durable.assignment_epoch, durable.target_of(who.known.member_id)
        is_behind = durable.assignment_epoch < draft.epoch
        final = updated if is_behind else make_step(groups, draft, who, updated, regex, *target, owned)
        trigger = _trigger(group, final) if is_behind else None
        downgrade(groups, group, (), trigger, turn, Joined(final, who.known, draft.facts))
    else:
        target = target_for(groups, draft, who, updated, computed, turn.now)
        final = make_step(groups, draft, who, updated, regex, *target, owned)
        throw_if_too_large(groups, draft)
        write_draft(groups, draft, who, final, turn)
        timeout_ms = request.session_timeout_ms
        restart_session(group, member_id, timeout_ms, context.connection_id, turn)
        await_sync(group, member_id, join.rebalance_timeout_ms, turn)
        begin_resolution(group, resolution, context, turn)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=final.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=join.protocols[0][0],
        leader="",
        member_id=member_id,
    )


def _throw_if_unfit(groups: Groups, group: ConsumerGroup, join: Join, member_id: str) -> None:
    """Refusal: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED."""
    config, durable = groups.consumer_config, group.durable
    if not config.migration_policy.admits_classic_members:
        message = (
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
            "migration is disabled."
        )
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    instance_id = join.request.group_instance_id
    throw_if_full(durable, member_id, instance_id, config.group_consumer_max_size)
    is_supported = any(
        durable.classic_protocols.get(name, 0) == durable.classic_members for name, _ in join.protocols
    )
    if join.request.protocol_type != PROTOCOL_TYPE or not is_supported:
        message = f"Member {member_id}'s protocols are not supported."
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _sender(group: DurableConsumerGroup, join: Join, member_id: str) -> Who:
    """Whoever has an id is a member, even with one that nobody gave out; a static one without an id takes the place
    of the one before it. Refusal: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    instance_id = join.request.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        return Who(ConsumerMember(member_id), None) if member is None else Who(member, member)
    holder = group.member_of(instance_id)
    if join.request.member_id:
        holder = known_static_member(holder, member_id, instance_id)
        return Who(holder, holder)
    if holder is None:
        return Who(ConsumerMember(member_id), None)
    return Who(successor_of(holder, member_id), holder)


def _subscription(join: Join, most_bytes: int) -> ConsumerProtocolSubscription:
    """What it reads, by its first protocol. Refusal: INCONSISTENT_GROUP_PROTOCOL; INVALID_REQUEST for too many
    names; UNKNOWN_SERVER_ERROR where the log would take so much in no case."""
    metadata = join.protocols[0][1]
    if len(metadata) > most_bytes:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    try:
        subscription = decode_subscription(metadata)
    except Malformed as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error
    if len(subscription.topics) > MOST_NAMES:
        raise Refusal(ErrorCode.INVALID_REQUEST, None)
    return subscription


def _merged(member: ConsumerMember, join: Join, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    """The member as it says now that it is. It speaks the classic protocol now, which knows no expressions."""
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


def _owned(groups: Groups, subscription: ConsumerProtocolSubscription) -> Owned:
    owned = by_topic_id(subscription.owned_partitions, groups.topics)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in owned.items()
    ]


def _trigger(group: ConsumerGroup, joined: ConsumerMember) -> Trigger:
    sentence = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
    return Trigger(RebalanceCause.STATIC_MEMBER_REPLACED, sentence, joined.name)
