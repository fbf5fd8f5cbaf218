"""A target was computed somewhere else: who waited for it goes on, in order.

The first one is looked at again from the start. When the group is not what it was, its target is computed again.
"""

from coordinator.group.classic_requests import classic_request
from coordinator.group.consumer.classic_join import join_member
from coordinator.group.consumer.heartbeat import answer_heartbeat, consumer_group_heartbeat
from coordinator.group.consumer.target import Computed, TargetWork
from coordinator.group.groups import Groups
from coordinator.group.refusal import error_response
from coordinator.machine.outcome import WorkDone
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def target_computed(groups: Groups, done: WorkDone, turn: Turn) -> None:
    """Answer those who waited, or park them anew. No reply of its own."""
    work: TargetWork = done.work.argument  # type: ignore[assignment]
    awaited = groups.targets.get(work.group_id)
    if awaited is None or awaited.work is not work:
        return
    del groups.targets[work.group_id]
    computed = Computed(work, done.result, done.error)  # type: ignore[arg-type]
    (first, context), *behind = awaited.parked
    group = groups.consumers.get(work.group_id)
    if type(first) is ConsumerGroupHeartbeatRequest:
        answer_heartbeat(groups, first, context, turn, computed)
    elif group is not None and not group.is_empty:
        join_member(groups, group, first, context, turn, computed)
    else:
        classic_request(groups, first, context, turn)
    for request, its_context in behind:
        is_heartbeat = type(request) is ConsumerGroupHeartbeatRequest
        (consumer_group_heartbeat if is_heartbeat else classic_request)(groups, request, its_context, turn)


def unload_targets(groups: Groups, turn: Turn) -> None:
    """Nobody waits here any more: everyone is told NOT_COORDINATOR."""
    for awaited in groups.targets.values():
        for request, context in awaited.parked:
            turn.reply(
                context.waiter, error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR)
            )
    groups.targets.clear()
