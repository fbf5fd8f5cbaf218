"""Conversion of groups with members: classic to consumer (upgrade) and consumer to classic (downgrade)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from sys import intern
from typing import Final

from msgspec import Struct

from coordinator.core.outcome import NO_PRODUCER_ID, Fact, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_records import group_metadata_record
from coordinator.group.classic.classic_state_machine import DEAD, STABLE
from coordinator.group.classic.rebalance import prepare_rebalance
from coordinator.group.consumer.consumer_group import ConsumerGroup, end_session
from coordinator.group.consumer.consumer_group_store import ConsumerGroupStore
from coordinator.group.consumer.consumer_member import (
    NO_TARGET,
    ConsumerMember,
    TargetPartitions,
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    target_record,
)
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.group_subscription import compute_topics_hash
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from coordinator.group.event_details import MemberName, Trigger
from coordinator.group.group_event_types import GroupConverted, SubscriptionUnreadable
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_types import GroupType
from coordinator.group.modern.java_order import HashOrder, TimelineOrder, mix_string
from coordinator.group.shard_groups import ShardGroups
from coordinator.group.topics_image import TopicsImage
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    decode_version,
    encode_assignment,
    find_newest_version,
)
from protocol.error_codes import ErrorCode
from protocol.primitives import Malformed
from protocol.records.group_record_schemas import ClassicMemberMetadata, ClassicProtocol

NO_TARGET_TIMESTAMP: Final = 0
"""The timestamp of the last target of an upgraded group: it allows the next target at once."""


def build_upgraded_group(
    groups: ShardGroups, classic: ClassicGroup, builder: OutcomeBuilder
) -> tuple[DurableConsumerGroup, list[Fact]]:
    """Build the durable state of an upgraded group with members, and its records. Writes nothing.

    If the group may be upgraded, this answers its parked requests with REBALANCE_IN_PROGRESS, even if the
    conversion then fails.

    Raises:
        GroupApiError: GROUP_ID_NOT_FOUND if it cannot be upgraded, UNKNOWN_SERVER_ERROR if its records exceed the
            batch limit of the log.
    """
    _throw_if_not_upgradable(groups, classic)
    for member in classic.members.values():
        if member.is_awaiting_join or member.is_awaiting_sync:
            classic.answer_parked(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, builder)
            classic.restart_session(member, builder)
    _throw_if_too_large(groups, classic)
    try:
        order = _order_members(classic)
        members = [_convert_member(classic, classic.members[member_id], groups.topics) for member_id in order]
    except Malformed as error:
        raise _build_upgrade_error(classic, "the embedded consumer protocol is malformed.") from error
    facts = _build_upgrade_records(classic, members, groups.topics)
    store = ConsumerGroupStore()
    for fact in facts:
        store.replay(fact.key, fact.value, NO_PRODUCER_ID)
    durable = store.by_group[classic.group_id]
    durable.order = order  # one insertion for each member, although its two records cause two
    return durable, [*classic.tombstones(), *facts]


def end_classic_group(groups: ShardGroups, classic: ClassicGroup, builder: OutcomeBuilder) -> None:
    """Forget a converted classic group and all its timers."""
    for member in classic.members.values():
        classic.cancel_session(member, builder)
    for member_id in list(classic.pending_members):
        classic.forget_pending(member_id, builder)
    timers = {
        GroupTimerKind.JOIN: classic.join_deadline_ms,
        GroupTimerKind.SYNC: classic.sync_deadline_ms,
        GroupTimerKind.REPORT: classic.rebalance,
    }
    for kind, is_armed in timers.items():
        if is_armed is not None:
            builder.cancel_timer(GroupTimerKey(kind, classic.group_id))
    classic.pending_sync.clear()
    classic.join_deadline_ms = classic.sync_deadline_ms = classic.rebalance = None
    classic.transition_to(DEAD, builder.now.wall_ms)
    groups.forget_group(classic.group_id)


def _throw_if_not_upgradable(groups: ShardGroups, classic: ClassicGroup) -> None:
    config = groups.consumer_config
    if not config.migration_policy.upgrades:
        raise _build_upgrade_error(classic, "online upgrade is disabled.")
    if not classic.uses_consumer_protocol:
        raise _build_upgrade_error(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > config.group_consumer_max_size:
        raise _build_upgrade_error(classic, "the group size exceeds the consumer group maximum size.")


def _throw_if_too_large(groups: ShardGroups, classic: ClassicGroup) -> None:
    """Refuse a group before parsing its subscriptions, which takes a second for some megabytes. The record of each
    member has its metadata for every protocol; Kafka fails to write such a batch, with this error.
    """
    size = sum(len(metadata) for member in classic.members.values() for _, metadata in member.protocols)
    if size > groups.config.message_max_bytes:
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _build_upgrade_error(classic: ClassicGroup, reason: str) -> GroupApiError:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}"
    return GroupApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _order_members(classic: ClassicGroup) -> TimelineOrder:
    """Order the members as Kafka does, which reads them from one hash map and writes them to another."""
    order = TimelineOrder()
    for member_id in HashOrder(mix_string, keys=classic.members):
        order.insert(member_id)
    return order


def _convert_member(classic: ClassicGroup, member: ClassicMember, image: TopicsImage) -> ConsumerMember:
    """Convert a classic member with its assignment. Raises Malformed, GroupApiError."""
    assigned = _convert_assignment(classic, member, image)
    metadata = dict(member.protocols).get(classic.protocol_name or "")
    if metadata is None:
        # No generation has chosen a protocol that it supports. Kafka fails to find it.
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
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


def _convert_assignment(classic: ClassicGroup, member: ClassicMember, image: TopicsImage) -> TargetPartitions:
    if not member.assignment:
        return NO_TARGET
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _build_upgrade_error(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    return convert_to_topic_ids(assignment.assigned_partitions, image)


def _build_upgrade_records(
    classic: ClassicGroup, members: Sequence[ConsumerMember], image: TopicsImage
) -> list[Fact]:
    group_id, epoch = classic.group_id, classic.generation_id
    names = frozenset[str]().union(*(member.subscribed_topic_names for member in members))
    targets = {
        member.member_id: {topic_id: tuple(of_topic) for topic_id, of_topic in member.assigned.items()}
        for member in members
    }
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, compute_topics_hash(image, names)),
        *(target_record(group_id, member_id, target) for member_id, target in targets.items()),
        assignment_epoch_record(group_id, epoch, NO_TARGET_TIMESTAMP),
        *(current_record(group_id, member) for member in members),
    ]


def may_downgrade(groups: ShardGroups, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Return whether the group becomes a classic one without the members of `without`."""
    remaining = [member for member_id, member in group.durable.members.items() if member_id not in without]
    return (
        bool(remaining)
        and all(member.uses_classic_protocol for member in remaining)
        and groups.consumer_config.migration_policy.downgrades
        and len(remaining) <= groups.config.group_max_size
    )


def may_downgrade_after_replacement(
    groups: ShardGroups, group: ConsumerGroup, replaced: ConsumerMember
) -> bool:
    """Return whether the group becomes a classic one when a member of the classic protocol replaces `replaced`."""
    others = [member for member in group.durable.members.values() if member is not replaced]
    return (
        not replaced.uses_classic_protocol
        and all(member.uses_classic_protocol for member in others)
        and groups.consumer_config.migration_policy.downgrades
        and len(others) + 1 <= groups.config.group_max_size
    )


class MemberReplacement(Struct, frozen=True):
    """A `member` of the classic protocol that replaces the `known` one, and the records of the replacement."""

    member: ConsumerMember
    known: ConsumerMember
    facts: Sequence[Fact]


def downgrade_group(
    groups: ShardGroups,
    group: ConsumerGroup,
    without: Collection[str],
    trigger: Trigger | None,
    builder: OutcomeBuilder,
    replacement: MemberReplacement | None = None,
) -> ClassicGroup:
    """Convert the group to a classic one, without the members of `without`.

    Args:
        trigger: starts a rebalance after the conversion; None: no rebalance.
        replacement: the arriving member that causes the conversion.

    Raises:
        GroupApiError: GROUP_ID_NOT_FOUND, UNKNOWN_SERVER_ERROR; nothing has changed.
    """
    classic = _build_classic_group(group, without, replacement, groups.topics, builder)
    if replacement is None:
        facts = list(group.durable.tombstones())
    else:
        successors = {replacement.known.member_id: replacement.member.member_id}
        facts = [*replacement.facts, *group.durable.tombstones(successors)]
    for fact in facts:
        builder.write_fact(fact)
    for member_id in list(group.sessions):
        end_session(group, member_id, builder)
    group.is_dead = True
    groups.forget_group(group.group_id)
    builder.write_fact(group_metadata_record(classic))
    groups.add_group(classic)
    is_read = classic.read_subscriptions()
    builder.add_event(
        GroupConverted(
            classic.group_id,
            classic.generation_id,
            from_type=GroupType.CONSUMER,
            to_type=GroupType.CLASSIC,
            members=len(classic.members),
        )
    )
    if not is_read:
        builder.add_event(
            SubscriptionUnreadable(classic.group_id, classic.generation_id, classic.protocol_name or "")
        )
    for member in classic.members.values():
        classic.restart_session(member, builder)
    if trigger is not None:
        prepare_rebalance(groups, classic, trigger, builder)
    return classic


def _build_classic_group(
    group: ConsumerGroup,
    without: Collection[str],
    replacement: MemberReplacement | None,
    image: TopicsImage,
    builder: OutcomeBuilder,
) -> ClassicGroup:
    durable = group.durable
    replaced = None if replacement is None else replacement.known
    classic = ClassicGroup(group.group_id, builder.now.wall_ms)
    classic.generation_id = durable.epoch
    targets: dict[str, TargetPartitions] = {}
    for member_id in durable.order:
        member = durable.members[member_id]
        if member_id not in without and member is not replaced:
            classic.add_member(_build_classic_member(member), PROTOCOL_TYPE)
            targets[member_id] = durable.find_target(member_id)
    if replacement is not None:
        classic.add_member(_build_classic_member(replacement.member), PROTOCOL_TYPE)
        targets[replacement.member.member_id] = durable.find_target(replacement.known.member_id)
    classic.protocol_name = classic.select_protocol()
    classic.state = STABLE
    for classic_member in classic.members.values():
        target = targets[classic_member.member_id]
        metadata = classic_member.metadata_for(classic.protocol_name)
        try:
            classic_member.assignment = encode_member_assignment(target, metadata, image)
        except Malformed as error:
            message = f"Cannot downgrade the classic group {group.group_id}: {error}."
            raise GroupApiError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
        classic_member.settled_assignment = classic_member.assignment
    return classic


def _build_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, member.member_id
    return ClassicMember(
        MemberName(member.member_id, member.instance_id, member.client_id, member.client_host),
        member.classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        tuple((intern(each.name), each.metadata) for each in member.classic.supported_protocols),
    )


def convert_to_topic_ids(topics: Iterable[TopicPartitions], image: TopicsImage) -> TargetPartitions:
    """Convert partitions to topic ids; omit deleted topics. A client may repeat a topic for each partition."""
    found: dict[bytes, list[int]] = {}
    for topic in topics:
        known = image.by_name.get(topic.topic)
        if known is not None and topic.partitions:
            found.setdefault(known.topic_id, []).extend(topic.partitions)
    return {
        topic_id: tuple(sorted(set(partitions)) if len(partitions) > 1 else partitions)
        for topic_id, partitions in found.items()
    }


def encode_member_assignment(
    assigned: Mapping[bytes, Iterable[int]], subscription: bytes, image: TopicsImage
) -> bytes:
    """Encode an assignment in the version of a member's subscription; omit deleted topics.

    Raises:
        Malformed: the subscription has no version.
    """
    topics: Sequence[TopicPartitions] = [
        TopicPartitions(topic=image.by_id[topic_id].name, partitions=sorted(partitions))
        for topic_id, partitions in assigned.items()
        if topic_id in image.by_id
    ]
    version = min(decode_version(subscription), find_newest_version(ConsumerProtocolAssignment))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=list(topics)), version)
