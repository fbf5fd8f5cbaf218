"""What a group is doing now, whom it waits for, and what would end that: in sentences to be printed as they are."""

from collections.abc import Sequence

from coordinator.control.group_removals import why_absent
from coordinator.control.waits.consumer_situation import consumer_situation
from coordinator.control.waits.labels import named, seconds, some
from coordinator.control.waits.sight import GroupSight, Reach
from coordinator.group.group_type import GroupType
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Awaited, AwaitedRequest
from coordinator.group.state import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.group.view import GroupView, RebalanceView

_MOST_AWAITED = 5


def situation(sight: GroupSight) -> str:
    """One sentence or a few, the first of which begins with the name of the group."""
    if sight.unavailable is not None:
        return sight.unavailable
    view = sight.view
    if view is None:
        similar = sight.around.similar_groups(sight.group_id)
        like = f" (there is {some([named(one) for one in similar])})" if similar else ""
        return f"There is no group {sight.name}{like}: {why_absent(sight.removal)}."
    if view.type is GroupType.CONSUMER and view.state not in (STABLE.value, EMPTY.value):
        return consumer_situation(sight, view)
    said = (
        [_rebalancing(sight, view, view.rebalance)] if view.rebalance is not None else [_at_rest(sight, view)]
    )
    if view.pending and (view.rebalance is None or view.state == STABLE.value or view.rebalance.is_initial):
        whom = some(
            [_pending(sight, one.name, one.since_ms, one.left_ms) for one in view.pending], _MOST_AWAITED
        )
        said.append(f"It also expects the first JoinGroup of {whom}.")
    return " ".join(said)


def condition_of(reach: Reach | None) -> str:
    """`connection open`: of a member's connection."""
    if reach is not None and not reach.is_heard:
        return "not heard since the group was loaded"
    if reach is None or reach.is_connected:
        return "connection open"
    if reach.closed_ms_ago is None:
        return "no connection"
    return f"connection closed {seconds(reach.closed_ms_ago)} ago"


def no_connection(reach: Reach) -> str:
    """`has no connection any more, closed 2.1 s ago`: of a member that is not connected."""
    if not reach.is_heard:
        return "was not heard since the group was loaded, and its client has no connection"
    closed = "" if reach.closed_ms_ago is None else f", closed {seconds(reach.closed_ms_ago)} ago"
    return f"has no connection any more{closed}"


def _at_rest(sight: GroupSight, view: GroupView) -> str:
    is_known = view.state_since_ms or sight.remembered.changed_ms is not None
    since = f" since {seconds(sight.quiet_ms)}" if sight.quiet_ms is not None and is_known else ""
    if view.state == EMPTY.value:
        return f"{sight.name} is Empty{since}: it has no members."
    count = len(view.members)
    who = sight.labels.all(member.name for member in view.members)
    members = f"{count} member{'' if count == 1 else 's'} ({who})"
    generation = "epoch" if view.type is GroupType.CONSUMER else "generation"
    return f"{sight.name} is {view.state}{since} with {members} in {generation} {view.generation_id}."


def _rebalancing(sight: GroupSight, view: GroupView, rebalance: RebalanceView) -> str:
    if view.state == STABLE.value:
        return _not_fetched(sight, view, rebalance)
    trigger = rebalance.trigger
    by = "" if trigger.actor is None else f", by {sight.labels.of(trigger.actor)}"
    again = f", begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
    begin = f"{sight.name} is {view.state} since {seconds(rebalance.open_ms)} (cause: {trigger.cause}{by}{again})."
    if view.state == PREPARING_REBALANCE.value:
        return f"{begin} {_joining(sight, view, rebalance)}"
    return f"{begin} {_syncing(sight, view, rebalance)}"


def _joining(sight: GroupSight, view: GroupView, rebalance: RebalanceView) -> str:
    present = [member.name for member in view.members if member.is_awaiting_join]
    holds = sight.labels.all(present)
    left = seconds(rebalance.left_ms)
    if rebalance.is_initial:
        return (
            f"It holds the JoinGroup of {holds} and waits {left} more for others that may join, longer while they "
            f"come (group.initial.rebalance.delay.ms)."
        )
    if not rebalance.awaited:
        return f"All have joined ({holds}); the join phase ends in {left}."
    firsts = [one for one in rebalance.awaited if one.request is AwaitedRequest.FIRST_JOIN]
    members = [one for one in rebalance.awaited if one.request is not AwaitedRequest.FIRST_JOIN]
    whom = []
    if members:
        whom.append(f"the JoinGroup of {_awaited(sight, members)}")
    if firsts:
        pending = [_pending(sight, one.member, one.silent_ms, one.session_left_ms) for one in firsts]
        whom.append(f"the first JoinGroup of {some(pending, _MOST_AWAITED)}")
    held = f" and holds {'that' if len(present) == 1 else 'those'} of {holds}" if present else ""
    return f"It awaits {' and '.join(whom)}{held}. {_end_of_joining(sight, rebalance, members, firsts)}"


def _end_of_joining(
    sight: GroupSight, rebalance: RebalanceView, members: Sequence[Awaited], firsts: Sequence[Awaited]
) -> str:
    dynamic = [one for one in members if one.member.group_instance_id is None]
    static = [one for one in members if one.member.group_instance_id is not None]
    present = any(member.is_awaiting_join for member in sight.all_members)
    said = []
    if rebalance.left_ms and (present or dynamic):
        evicted = ""
        if dynamic:
            evicted = f", when {_labels(sight, dynamic)} would be evicted"
        elif static:
            evicted = f", without {_labels(sight, static)}, whose place is kept (static)"
        said.append(f"The join phase ends at the latest in {seconds(rebalance.left_ms)}{evicted}")
    said += [
        f"{sight.labels.of(one.member)}'s session ends in {seconds(one.session_left_ms)}"
        for one in members[:_MOST_AWAITED]
    ]
    if static and not present and not dynamic:
        return "Only static members are left, whose places are kept: " + ", ".join(said) + "."
    if firsts and not said:
        return ""
    return "; ".join(said) + "."


def _syncing(sight: GroupSight, view: GroupView, rebalance: RebalanceView) -> str:
    leader = [one for one in rebalance.awaited if one.request is AwaitedRequest.ASSIGNMENT]
    others = [one for one in rebalance.awaited if one.request is not AwaitedRequest.ASSIGNMENT]
    whom = []
    if leader:
        whom.append(f"the assignment (SyncGroup) of its leader, {_awaited(sight, leader)}")
    if others:
        whom.append(f"the SyncGroup of {_awaited(sight, others)}")
    held = [member.name for member in view.members if member.is_awaiting_sync]
    holds = f" and holds {'that' if len(held) == 1 else 'those'} of {sight.labels.all(held)}" if held else ""
    late = _labels(sight, rebalance.awaited)
    return (
        f"It awaits {' and '.join(whom)}{holds}. The sync phase ends at the latest in "
        f"{seconds(rebalance.left_ms)}, when {late} would be removed."
    )


def _not_fetched(sight: GroupSight, view: GroupView, rebalance: RebalanceView) -> str:
    whom = _awaited(sight, rebalance.awaited)
    return (
        f"{sight.name} is Stable in generation {view.generation_id}, but not all have fetched their assignment: it "
        f"awaits the SyncGroup of {whom}. In {seconds(rebalance.left_ms)} at the latest "
        f"{_labels(sight, rebalance.awaited)} would be removed."
    )


def _labels(sight: GroupSight, awaited: Sequence[Awaited]) -> str:
    return sight.labels.all(one.member for one in awaited)


def _awaited(sight: GroupSight, awaited: Sequence[Awaited]) -> str:
    return some([_whom(sight, one) for one in awaited], _MOST_AWAITED)


def _whom(sight: GroupSight, one: Awaited) -> str:
    static = "" if one.member.group_instance_id is None else f"static {named(one.member.group_instance_id)}, "
    told_ms = sight.remembered.told.get(one.member.member_id)
    told = "" if told_ms is None else f", told {seconds(max(0, sight.now.monotonic_ms - told_ms))} ago"
    connection = condition_of(sight.reach.get(one.member.member_id))
    return (
        f"{sight.labels.of(one.member)} ({static}last heard {seconds(one.silent_ms)} ago, {connection}{told})"
    )


def _pending(sight: GroupSight, name: MemberName, since_ms: int, left_ms: int) -> str:
    return (
        f"{sight.labels.of(name)} (given a member id {seconds(since_ms)} ago, not back with it; forgotten in "
        f"{seconds(left_ms)})"
    )
