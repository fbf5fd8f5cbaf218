"""A classic group of consumers becomes a consumer group when the first member of the other protocol joins it.

Nobody else has to do anything: members keep what they have, and go on with JoinGroup, SyncGroup and Heartbeat. Who
waits for the others in a rebalance is told to join again.

Source: Kafka's GroupMetadataManager, validateOnlineUpgrade and convertToConsumerGroup; ConsumerGroup,
fromClassicGroup.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.record import group_tombstone
from coordinator.group.classic.session import (
    answer_parked,
    cancel_session,
    forget_pending,
    restart_session,
)
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.embedded_protocol import by_topic_id
from coordinator.group.consumer.member import NO_TARGET, ConsumerMember, Target
from coordinator.group.consumer.record import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    target_record,
)
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.store import ConsumerGroupStore
from coordinator.group.consumer.subscription import topics_hash
from coordinator.group.groups import Groups
from coordinator.group.modern.java_order import HashOrder, TimelineOrder, mixed_string
from coordinator.group.state import DEAD
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import NO_PRODUCER_ID, Fact
from coordinator.machine.turn import Turn
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ErrorCode
from protocol.malformed import Malformed
from protocol.records.consumer_group import ClassicMemberMetadata, ClassicProtocol

AT_ONCE: Final = 0
"""As the instant of the last target: the next one need not wait."""


def upgraded(groups: Groups, classic: ClassicGroup, turn: Turn) -> tuple[DurableConsumerGroup, list[Fact]]:
    """What the log is to say of a group that has members, and the records that say so; nothing is written yet.
    Refusal: GROUP_ID_NOT_FOUND where it cannot be upgraded, UNKNOWN_SERVER_ERROR where its records would not fit
    the log. Who is parked in it is answered in any case then."""
    _throw_if_not_upgradable(groups, classic)
    for member in classic.members.values():
        if member.is_awaiting_join or member.is_awaiting_sync:
            answer_parked(classic, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, turn)
            restart_session(classic, member, turn)
    _throw_if_too_large(groups, classic)
    try:
        order = _order(classic)
        members = [_converted(classic, classic.members[member_id], groups.topics) for member_id in order]
    except Malformed as error:
        raise _refused(classic, "the embedded consumer protocol is malformed.") from error
    facts = _records(classic, members, groups.topics)
    store = ConsumerGroupStore()
    for fact in facts:
        store.replay(fact.key, fact.value, NO_PRODUCER_ID)
    durable = store.by_group[classic.group_id]
    durable.order = order  # each member was put once, of which its two records make two
    return durable, [group_tombstone(classic), *facts]


def end_classic(groups: Groups, classic: ClassicGroup, turn: Turn) -> None:
    """The group goes on as one of another type: forget this one, and all that it waits for."""
    for member in classic.members.values():
        cancel_session(classic, member, turn)
    for member_id in list(classic.pending_members):
        forget_pending(classic, member_id, turn)
    timers = {
        TimerKind.JOIN: classic.join_deadline_ms,
        TimerKind.SYNC: classic.sync_deadline_ms,
        TimerKind.REPORT: classic.rebalance,
    }
    for kind, is_armed in timers.items():
        if is_armed is not None:
            turn.cancel(TimerKey(kind, classic.group_id))
    classic.pending_sync.clear()
    classic.join_deadline_ms = classic.sync_deadline_ms = classic.rebalance = None
    classic.transition_to(DEAD, turn.now.wall_ms)
    groups.forget(classic.group_id)


def _throw_if_not_upgradable(groups: Groups, classic: ClassicGroup) -> None:
    config = groups.consumer_config
    if not config.migration_policy.upgrades:
        raise _refused(classic, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise _refused(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > config.group_consumer_max_size:
        raise _refused(classic, "the group size exceeds the consumer group maximum size.")


def _throw_if_too_large(groups: Groups, classic: ClassicGroup) -> None:
    """Refuse a group before its subscriptions are parsed, which takes a second for some megabytes. The record of
    each member has its metadata for every protocol; Kafka fails to write such a batch, with this error."""
    size = sum(len(metadata) for member in classic.members.values() for _, metadata in member.protocols)
    if size > groups.config.message_max_bytes:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _refused(classic: ClassicGroup, why: str) -> Refusal:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _order(classic: ClassicGroup) -> TimelineOrder:
    """Kafka takes the members out of one hash map, and puts them into another."""
    order = TimelineOrder()
    for member_id in HashOrder(mixed_string, keys=classic.members):
        order.put(member_id)
    return order


def _converted(classic: ClassicGroup, member: Member, image: TopicsImage) -> ConsumerMember:
    """Malformed, Refusal."""
    assigned = _assigned(classic, member, image)
    metadata = dict(member.protocols).get(classic.protocol_name or "")
    if metadata is None:
        # No generation has chosen a protocol that it supports. Kafka fails to find it.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    subscription = decode_subscription(metadata)
    epoch = classic.generation_id
    return ConsumerMember(
        member.member_id,
        member.group_instance_id,
        subscription.rack_id or None,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        frozenset(subscription.topics),
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=its_metadata) for name, its_metadata in member.protocols
            ],
        ),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        assigned={topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in assigned.items()},
    )


def _assigned(classic: ClassicGroup, member: Member, image: TopicsImage) -> Target:
    if not member.assignment:
        return NO_TARGET
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return by_topic_id(assignment.assigned_partitions, image)


def _records(classic: ClassicGroup, members: Sequence[ConsumerMember], image: TopicsImage) -> list[Fact]:
    group_id, epoch = classic.group_id, classic.generation_id
    names = frozenset[str]().union(*(member.subscribed_topic_names for member in members))
    targets = {
        member.member_id: {topic_id: tuple(of_topic) for topic_id, of_topic in member.assigned.items()}
        for member in members
    }
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, topics_hash(names, image)),
        *(target_record(group_id, member_id, target) for member_id, target in targets.items()),
        assignment_epoch_record(group_id, epoch, AT_ONCE),
        *(current_record(group_id, member) for member in members),
    ]
