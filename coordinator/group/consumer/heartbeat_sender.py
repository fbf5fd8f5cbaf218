"""Finds the member and the group that a heartbeat or a JoinGroup belongs to."""

from base64 import urlsafe_b64encode
from sys import intern

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_state_machine import EMPTY
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.consumer_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, ConsumerMember
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.group_conversion import build_upgraded_group
from coordinator.group.consumer.heartbeat_validation import GroupApiError, build_unknown_member_error
from coordinator.group.consumer.reconciliation import OwnedPartitions, owns_only
from coordinator.group.offsets.offset_removal import build_leftover_tombstones
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class HeartbeatSender(Struct, frozen=True):
    """The sender of a request: `member` is its state before the request, or a new one. `known` is the member that
    the group has in its place: the same one, a static member that it replaces, or None for a new member.
    """

    member: ConsumerMember
    known: ConsumerMember | None

    @property
    def replaces_static_member(self) -> bool:
        """Return whether the sender replaces a static member, with another id or the same one."""
        return self.known is not None and self.known is not self.member


def throw_if_full(
    group: DurableConsumerGroup, member_id: str, instance_id: str | None, max_size: int
) -> None:
    """Check that the group has room for the sender, whatever its epoch.

    Raises:
        GroupApiError: GROUP_MAX_SIZE_REACHED for an unknown member.
    """
    if (
        len(group.members) >= max_size
        and member_id not in group.members
        and (instance_id is None or instance_id not in group.static_members)
    ):
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise GroupApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def find_dynamic_sender(
    group: DurableConsumerGroup, member_id: str, epoch: int, owned: OwnedPartitions | None
) -> HeartbeatSender:
    """Return a sender without an instance id.

    Raises:
        GroupApiError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    member = group.members.get(member_id)
    if member is None:
        if epoch != JOINING_EPOCH:
            raise build_unknown_member_error(group.group_id, member_id)
        return HeartbeatSender(ConsumerMember(member_id), None)
    throw_if_epoch_is_invalid(member, epoch, owned)
    return HeartbeatSender(member, member)


def find_static_sender(
    group: DurableConsumerGroup, member_id: str, instance_id: str, epoch: int, owned: OwnedPartitions | None
) -> HeartbeatSender:
    """Return a sender with an instance id.

    Raises:
        GroupApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    holder = group.find_static_member(instance_id)
    if epoch != JOINING_EPOCH:
        holder = require_static_member(holder, member_id, instance_id)
        throw_if_epoch_is_invalid(holder, epoch, owned)
        return HeartbeatSender(holder, holder)
    if holder is None:
        member = group.members.get(member_id)
        return (
            HeartbeatSender(ConsumerMember(member_id), None)
            if member is None
            else HeartbeatSender(member, member)
        )
    if holder.member_epoch != LEAVING_STATIC_EPOCH and not holder.uses_classic_protocol:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {holder.member_id} member."
        )
        raise GroupApiError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return HeartbeatSender(create_successor(holder, member_id), holder)


def create_successor(holder: ConsumerMember, member_id: str) -> ConsumerMember:
    """Create the successor of a static member, which inherits everything and joins."""
    return replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0)


def require_static_member(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the holder of an instance id if it is the sender.

    Raises:
        GroupApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if holder is None:
        raise GroupApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        holder_id = holder.member_id
        message = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder_id}."
        )
        raise GroupApiError(ErrorCode.FENCED_INSTANCE_ID, message)
    return holder


def throw_if_epoch_is_invalid(member: ConsumerMember, epoch: int, owned: OwnedPartitions | None) -> None:
    """Check the epoch of a heartbeat.

    A member may send epoch 0 to rejoin. If it missed the last response, it may send its previous epoch, and must
    report only partitions that are assigned to it.

    Raises:
        GroupApiError: FENCED_MEMBER_EPOCH.
    """
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
    raise GroupApiError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def find_joined_group(
    groups: ShardGroups, request: ConsumerGroupHeartbeatRequest, builder: OutcomeBuilder
) -> tuple[DurableConsumerGroup, list[Fact]]:
    """Return the durable state of the group, and the records that first convert it to the consumer protocol.

    An empty classic group is replaced, and one with members is converted. A new group exists only after its first
    record is written.

    Raises:
        GroupApiError: GROUP_ID_NOT_FOUND; the errors of `build_upgraded_group`.
    """
    group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
    group = groups.find_typed_group(ConsumerGroup, group_id)
    if group is not None:
        return group.durable, []
    if group_id not in groups.by_id:
        if not joins:
            raise GroupApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return DurableConsumerGroup(intern(group_id)), []
    classic = groups.find_typed_group(ClassicGroup, group_id)
    if classic is not None and joins and classic.state is not EMPTY:
        return build_upgraded_group(groups, classic, builder)
    if classic is None or not joins:
        raise GroupApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    facts = [*build_leftover_tombstones(groups.durable, group_id), *classic.tombstones()]
    return DurableConsumerGroup(classic.group_id), facts


def find_left_group(groups: ShardGroups, group_id: str) -> ConsumerGroup:
    """Return the group that a member leaves.

    Raises:
        GroupApiError: GROUP_ID_NOT_FOUND.
    """
    group = groups.find_typed_group(ConsumerGroup, group_id)
    if group is None:
        is_there = group_id in groups.by_id
        message = f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}."
        raise GroupApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return group


def create_member_id(new_member_uuid: str) -> str:
    """Return a member id in the form of Kafka's Uuid: 22 characters, of which the first is not a dash."""
    raw = bytearray.fromhex(new_member_uuid.replace("-", ""))
    if urlsafe_b64encode(raw).startswith(b"-"):
        raw[0] &= 0x7F
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
