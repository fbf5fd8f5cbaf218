"""The next step of a member towards its target: it first revokes partitions, then gets new ones.

No request waits for other members. A member that must revoke partitions keeps its epoch until it acknowledges the
revocation. If some new partitions still have another owner, the member gets the others, and its later heartbeats
try again.

Source: Kafka's `CurrentAssignmentBuilder`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.group.consumer.consumer_member import (
    NOTHING_ASSIGNED,
    AssignedPartitions,
    ConsumerMember,
    MemberState,
    TargetPartitions,
)
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

_NO_EPOCHS: Final[Mapping[int, int]] = {}

OwnedPartitions = Sequence[ConsumerGroupHeartbeatRequestTopicPartitions]
"""The partitions that a member reports as owned."""


class ReconciliationGoal(Struct, frozen=True):
    """The goal of a member.

    `is_subscribed` takes a topic id and returns whether the member subscribes to it now. `find_holders` takes a
    topic id and returns the members that own partitions or must still revoke them, by partition. `reads_any`: the
    member subscribes to at least one topic, existing or not.
    """

    epoch: int
    target: TargetPartitions
    is_subscribed: Callable[[bytes], bool]
    find_holders: Callable[[bytes], Mapping[int, str]]
    reads_any: bool
    has_subscription_changed: bool


def reconcile_member(
    member: ConsumerMember, goal: ReconciliationGoal, owned: OwnedPartitions | None
) -> ConsumerMember:
    """Return the member after its next step; the same object if nothing changes.

    Args:
        owned: the partitions that the member reports, None if it reports none.

    Raises:
        GroupApiError: FENCED_MEMBER_EPOCH for a member in an unknown state that does not rejoin.
    """
    if member.state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return _compute_next_step(member, member.member_epoch, goal, owned)
        return _remove_unsubscribed_topics(member, goal, owned) if goal.has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owns_any(owned, member.pending):
            return (
                _remove_unsubscribed_topics(member, goal, owned) if goal.has_subscription_changed else member
            )
        return _compute_next_step(member, member.member_epoch, goal, owned)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _compute_next_step(member, member.member_epoch, goal, owned)
    if owned is None or len(owned) > 0:
        message = (
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin."
        )
        raise GroupApiError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return _compute_next_step(member, goal.epoch, goal, owned)


def owns_any(owned: OwnedPartitions | None, partitions: AssignedPartitions) -> bool:
    """Return whether a member may own any of `partitions`; True if it does not report its partitions."""
    if owned is None:
        return True
    return any(
        partition in of_topic
        for topic in owned
        for of_topic in [partitions.get(topic.topic_id, {})]
        for partition in topic.partitions
    )


def owns_only(owned: OwnedPartitions | None, partitions: AssignedPartitions) -> bool:
    """Return whether a member owns only `partitions`; False if it does not report its partitions."""
    return owned is not None and all(
        topic.topic_id in partitions
        and all(partition in partitions[topic.topic_id] for partition in topic.partitions)
        for topic in owned
    )


def _compute_next_step(
    member: ConsumerMember, epoch: int, goal: ReconciliationGoal, owned: OwnedPartitions | None
) -> ConsumerMember:
    kept: dict[bytes, Mapping[int, int]] = {}
    revoked: dict[bytes, Mapping[int, int]] = {}
    added: dict[bytes, Sequence[int]] = {}
    is_unreleased = False
    for topic_id in dict.fromkeys((*goal.target, *member.assigned)):
        target = frozenset(goal.target.get(topic_id, ()) if goal.is_subscribed(topic_id) else ())
        assigned = member.assigned.get(topic_id, _NO_EPOCHS)
        if assigned and assigned.keys() == target:
            kept[topic_id] = assigned
            continue
        missing = sorted(target.difference(assigned))
        holders = goal.find_holders(topic_id)
        if holders:
            pending = member.pending.get(topic_id, _NO_EPOCHS)
            free = [partition for partition in missing if partition in pending or partition not in holders]
            is_unreleased = is_unreleased or len(free) < len(missing)
        else:
            free = missing
        if free:
            added[topic_id] = free
        if not assigned:
            continue
        kept_of_topic = {partition: since for partition, since in assigned.items() if partition in target}
        if kept_of_topic:
            kept[topic_id] = kept_of_topic
        if len(kept_of_topic) < len(assigned):
            revoked[topic_id] = {
                partition: since for partition, since in assigned.items() if partition not in target
            }
    if revoked and owns_any(owned, revoked):
        return _move_to_epoch(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, partitions in added.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(partitions, goal.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE
    return _move_to_epoch(member, goal.epoch, state, kept, NOTHING_ASSIGNED)


def _remove_unsubscribed_topics(
    member: ConsumerMember, goal: ReconciliationGoal, owned: OwnedPartitions | None
) -> ConsumerMember:
    """Return the member without topics that it no longer subscribes to. Other topics stay unchanged."""
    kept, pending = {}, dict(member.pending)
    for topic_id, of_topic in member.assigned.items():
        if goal.is_subscribed(topic_id):
            kept[topic_id] = of_topic
        else:
            pending[topic_id] = {**pending.get(topic_id, {}), **of_topic}
    if len(kept) == len(member.assigned) and (goal.reads_any or member.pending):
        return member
    if pending and owns_any(owned, pending):
        return _move_to_epoch(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return _move_to_epoch(member, member.member_epoch, member.state, kept, member.pending)


def _move_to_epoch(
    member: ConsumerMember,
    epoch: int,
    state: MemberState,
    assigned: AssignedPartitions,
    pending: AssignedPartitions,
) -> ConsumerMember:
    """Move the member to an epoch. The previous epoch becomes the last one sent to it, even if both are equal."""
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        pending=pending,
    )
