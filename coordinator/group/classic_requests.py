"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: to a classic group, or to a consumer group with members that
speak the classic protocol.

While a group's target is computed somewhere else, its requests wait, in their order.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from coordinator.group.classic.heartbeat import heartbeat as heartbeat_to_classic
from coordinator.group.classic.join import join_group as join_classic
from coordinator.group.classic.leave import leave_group as leave_classic
from coordinator.group.classic.sync import sync_group as sync_classic
from coordinator.group.consumer.classic_join import join_member
from coordinator.group.consumer.classic_member import (
    heartbeat_of_member,
    leave_with_members,
    sync_member,
)
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.groups import Groups
from coordinator.group.refusal import check_join
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest

ToClassic: TypeAlias = Callable[[Groups, Any, Context, Turn], None]
ToConsumer: TypeAlias = Callable[[Groups, ConsumerGroup, Any, Context, Turn], None]

HANDLERS: Final[dict[type[object], tuple[ToClassic, ToConsumer]]] = {
    JoinGroupRequest: (join_classic, join_member),
    SyncGroupRequest: (sync_classic, sync_member),
    HeartbeatRequest: (heartbeat_to_classic, heartbeat_of_member),
    LeaveGroupRequest: (leave_classic, leave_with_members),
}
"""Who answers what."""


def classic_request(groups: Groups, request: Any, context: Context, turn: Turn) -> None:
    """Answer one of the four, or park it."""
    awaited = groups.targets.get(request.group_id)
    if awaited is not None:
        awaited.parked.append((request, context))
        return
    to_classic, to_consumer = HANDLERS[type(request)]
    group = groups.consumers.get(request.group_id)
    if group is None or (type(request) is JoinGroupRequest and not _admits(groups, group, request)):
        to_classic(groups, request, context, turn)
    else:
        to_consumer(groups, group, request, context, turn)


def _admits(groups: Groups, group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether a consumer group answers a JoinGroup itself: one without members makes way, and what is wrong with
    the request is told as ever."""
    return not group.is_empty and check_join(request, groups.config) is ErrorCode.NONE
