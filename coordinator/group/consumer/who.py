"""Whom a heartbeat is from: a member, one that joins, or one that takes the place of a static one.

Source: Kafka's GroupMetadataManager, getOrMaybeSubscribeDynamicConsumerGroupMember and
getOrMaybeSubscribeStaticConsumerGroupMember, throwIfConsumerGroupMemberEpochIsInvalid and their like.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, ConsumerMember
from coordinator.group.consumer.reconcile import Owned, owns_only
from coordinator.group.consumer.refusal import Refusal, unknown_member
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Who:
    """`member` is the sender before this request, or as a new one; `known` is who the group has in its place: the
    same, a static member whose place it takes, None where it is new."""

    member: ConsumerMember
    known: ConsumerMember | None

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of a static member, under another id or its own."""
        return self.known is not None and self.known is not self.member


def throw_if_full(
    group: DurableConsumerGroup, member_id: str, instance_id: str | None, max_size: int
) -> None:
    """Refusal: GROUP_MAX_SIZE_REACHED for a stranger, whatever its epoch."""
    if (
        len(group.members) >= max_size
        and member_id not in group.members
        and (instance_id is None or instance_id not in group.static_members)
    ):
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def dynamic_member(group: DurableConsumerGroup, member_id: str, epoch: int, owned: Owned | None) -> Who:
    """A sender without an instance id. Refusal: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH."""
    member = group.members.get(member_id)
    if member is None:
        if epoch != JOINING_EPOCH:
            raise unknown_member(group.group_id, member_id)
        return Who(ConsumerMember(member_id), None)
    throw_if_epoch_is_invalid(member, epoch, owned)
    return Who(member, member)


def static_member(
    group: DurableConsumerGroup, member_id: str, instance_id: str, epoch: int, owned: Owned | None
) -> Who:
    """A sender with an instance id. Refusal: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH."""
    holder = group.member_of(instance_id)
    if epoch != JOINING_EPOCH:
        holder = known_static_member(holder, member_id, instance_id)
        throw_if_epoch_is_invalid(holder, epoch, owned)
        return Who(holder, holder)
    if holder is None:
        member = group.members.get(member_id)
        return Who(ConsumerMember(member_id), None) if member is None else Who(member, member)
    if holder.member_epoch != LEAVING_STATIC_EPOCH and not holder.uses_classic_protocol:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {holder.member_id} member."
        )
        raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return Who(successor_of(holder, member_id), holder)


def successor_of(holder: ConsumerMember, member_id: str) -> ConsumerMember:
    """Who takes a static member's place inherits everything, and joins."""
    return replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0)


def known_static_member(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The holder of an instance id, if it is the sender. Refusal: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        by = holder.member_id
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {by}."
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, message)
    return holder


def throw_if_epoch_is_invalid(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Refusal: FENCED_MEMBER_EPOCH, but for who joins anew, and for who did not get the last answer and has no more
    than what that assigned."""
    if epoch in (JOINING_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        compared = "greater"
    elif epoch != member.previous_member_epoch or not owns_only(owned, member.assigned):
        compared = "smaller"
    else:
        return
    message = (
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
