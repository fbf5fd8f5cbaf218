"""Which group a ConsumerGroupHeartbeat is for, and what becomes of a group of another type.

Source: Kafka's GroupMetadataManager, getOrMaybeCreateConsumerGroup and consumerGroup.
"""

from base64 import urlsafe_b64encode
from sys import intern

from coordinator.group.classic.record import group_tombstone
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import JOINING_EPOCH
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.upgrade import upgraded
from coordinator.group.groups import Groups
from coordinator.group.removal import leftovers
from coordinator.group.state import EMPTY
from coordinator.machine.outcome import Fact
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def joined_group(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, turn: Turn
) -> tuple[DurableConsumerGroup, list[Fact]]:
    """What the log says of the group, and the records that make it one of the consumer protocol first: an empty
    classic group is replaced, and one with members converted. A group that is new exists once something is written
    of it. Refusal: GROUP_ID_NOT_FOUND."""
    group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
    group = groups.consumers.get(group_id)
    if group is not None:
        return group.durable, []
    if group_id not in groups.by_id:
        if not joins:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return DurableConsumerGroup(intern(group_id)), []
    classic = groups.find_classic(group_id)
    if classic is not None and joins and classic.state is not EMPTY:
        return upgraded(groups, classic, turn)
    if classic is None or not joins:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    facts = [*leftovers(groups.durable, group_id), group_tombstone(classic)]
    return DurableConsumerGroup(classic.group_id), facts


def left_group(groups: Groups, group_id: str) -> ConsumerGroup:
    """The group that a member leaves. Refusal: GROUP_ID_NOT_FOUND."""
    group = groups.consumers.get(group_id)
    if group is None:
        is_there = group_id in groups.by_id
        message = f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}."
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return group


def new_member_id(new_member_uuid: str) -> str:
    """An id for a member that has none: 22 characters, as Kafka's Uuid is written, the first of which is no
    dash."""
    raw = bytearray.fromhex(new_member_uuid.replace("-", ""))
    if urlsafe_b64encode(raw).startswith(b"-"):
        raw[0] &= 0x7F
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
