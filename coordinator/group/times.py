"""What groups of any type wait for, as times: told, put off, moved. For whoever gives a group a clock of its
own."""

from collections.abc import Iterator

from coordinator.group.classic import heartbeat as classic_heartbeat
from coordinator.group.classic import times as classic_times
from coordinator.group.consumer import times as consumer_times
from coordinator.group.groups import Groups
from coordinator.group.requests import Acted, ExpireMember, KeepAlive, MoveTimes
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode


def deadlines(groups: Groups, group_id: str) -> Iterator[tuple[TimerKey, int]]:
    """What time alone will bring about in a group, with its monotonic time; nothing when there is no such group."""
    classic, consumer = groups.find_classic(group_id), groups.consumers.get(group_id)
    if classic is not None:
        yield from classic_times.deadlines(classic)
    elif consumer is not None:
        yield from consumer_times.deadlines(consumer)


def expire_member(groups: Groups, request: ExpireMember, context: Context, turn: Turn) -> None:
    """Answer an ExpireMember with Acted: UNKNOWN_MEMBER_ID when it is neither a member nor pending."""
    group = groups.consumers.get(request.group_id)
    if group is None:
        classic_heartbeat.expire_member(groups, request, context, turn)
        return
    is_member = consumer_times.expire_member(groups, group, request.member_id, turn)
    turn.reply(context.waiter, Acted(ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID))


def keep_alive(groups: Groups, request: KeepAlive, context: Context, turn: Turn) -> None:
    """Answer a KeepAlive with Acted."""
    classic, consumer = groups.find_classic(request.group_id), groups.consumers.get(request.group_id)
    if classic is not None:
        classic_times.keep_alive(classic, request, turn)
    elif consumer is not None:
        consumer_times.keep_alive(consumer, request, turn)
    turn.reply(context.waiter, Acted())


def move_times(groups: Groups, request: MoveTimes, context: Context, turn: Turn) -> None:
    """Answer a MoveTimes with Acted."""
    for group_id in request.group_ids:
        classic, consumer = groups.find_classic(group_id), groups.consumers.get(group_id)
        if classic is not None:
            classic_times.move(classic, request.by_ms, turn)
        elif consumer is not None:
            consumer_times.move(consumer, request.by_ms, turn)
    turn.reply(context.waiter, Acted())
