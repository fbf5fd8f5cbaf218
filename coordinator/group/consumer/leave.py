"""ConsumerGroupHeartbeat at epoch -1 and -2: a member leaves, for good or, if it is static, for a while.

Source: Kafka's GroupMetadataManager, consumerGroupLeave and consumerGroupStaticMemberGroupLeave.
"""

from msgspec.structs import replace

from coordinator.group.consumer.events import ConsumerMemberLeft, EpochCause
from coordinator.group.consumer.fence import remove_members
from coordinator.group.consumer.find import left_group
from coordinator.group.consumer.member import LEAVING_STATIC_EPOCH, NOTHING_ASSIGNED, Assigned
from coordinator.group.consumer.record import current_record
from coordinator.group.consumer.refusal import unknown_member
from coordinator.group.consumer.who import known_static_member
from coordinator.group.groups import Groups
from coordinator.machine.turn import Turn
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave_consumer_group(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, turn: Turn
) -> ConsumerGroupHeartbeatResponse:
    """Let the sender go. A static one that returns keeps its partitions until its session is over. Refusal:
    GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = left_group(groups, request.group_id)
    durable, member_id = group.durable, request.member_id
    returns = request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH
    if request.instance_id is None:
        member = durable.members.get(member_id)
        if member is None:
            raise unknown_member(group.group_id, member_id)
    else:
        holder = durable.member_of(request.instance_id)
        member = known_static_member(holder, member_id, request.instance_id)
    turn.tell(ConsumerMemberLeft(group.group_id, durable.epoch, member.name, returns=returns))
    if returns:
        away = replace(
            member,
            member_epoch=LEAVING_STATIC_EPOCH,
            pending=NOTHING_ASSIGNED,
            assigned=_from_epoch_0(member.assigned),
        )
        turn.write(current_record(group.group_id, away))
    else:
        remove_members(groups, group, [member], EpochCause.MEMBER_LEFT, turn)
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)


def _from_epoch_0(assigned: Assigned) -> Assigned:
    """Whoever comes back may commit for all of them."""
    return {topic_id: dict.fromkeys(of_topic, 0) for topic_id, of_topic in assigned.items()}
