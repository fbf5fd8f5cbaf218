"""Describes in sentences the current activity of a group, the members that it waits for, and the event that
would end the wait.

A consumer group (KIP-848) waits for members to revoke partitions, to receive partitions or to learn of their
target assignment.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coordinator.control.diagnosis.group_snapshot import ConnectionState, GroupSnapshot
from coordinator.control.diagnosis.member_labels import (
    format_list,
    format_name,
    format_ranges,
)
from coordinator.control.group_removals import why_absent
from coordinator.core.message_text import format_count, format_seconds
from coordinator.group.classic.classic_state_machine import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.event_details import AwaitedMember, AwaitedRequest, MemberName
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import ConsumerMemberView, GroupView, MemberView, RebalanceView

_MAX_AWAITED = 5


def describe_state(snapshot: GroupSnapshot) -> str:
    """Return one or more sentences about the state of a group. The first begins with the name of the group."""
    if snapshot.unavailable is not None:
        return snapshot.unavailable
    view = snapshot.view
    if view is None:
        similar = snapshot.cluster.find_similar_groups(snapshot.group_id)
        like = f" (there is {format_list([format_name(one) for one in similar])})" if similar else ""
        return f"Group {snapshot.name} does not exist{like}: {why_absent(snapshot.removal)}."
    if view.type is GroupType.CONSUMER and view.state not in (STABLE.value, EMPTY.value):
        return _describe_consumer_state(snapshot, view)
    sentences = (
        [_describe_rebalance(snapshot, view, view.rebalance)]
        if view.rebalance is not None
        else [_describe_at_rest(snapshot, view)]
    )
    if view.pending and (view.rebalance is None or view.state == STABLE.value or view.rebalance.is_initial):
        whom = format_list(
            [_format_pending(snapshot, one.name, one.since_ms, one.left_ms) for one in view.pending],
            _MAX_AWAITED,
        )
        sentences.append(f"It also expects the first JoinGroup of {whom}.")
    return " ".join(sentences)


def describe_connection(connection: ConnectionState | None) -> str:
    """Describe the connection of a member, such as `connection open`."""
    if connection is not None and not connection.is_heard:
        return "not heard since the group was loaded"
    if connection is None or connection.is_connected:
        return "connection open"
    if connection.closed_ms_ago is None:
        return "no connection"
    return f"connection closed {format_seconds(connection.closed_ms_ago)} ago"


def describe_disconnection(connection: ConnectionState) -> str:
    """Describe a closed connection, such as `has no connection any more, closed 2.1 s ago`."""
    if not connection.is_heard:
        return "was not heard since the group was loaded, and its client has no connection"
    closed = (
        "" if connection.closed_ms_ago is None else f", closed {format_seconds(connection.closed_ms_ago)} ago"
    )
    return f"is disconnected{closed}"


def _describe_at_rest(snapshot: GroupSnapshot, view: GroupView) -> str:
    is_known = view.state_since_ms or snapshot.history.changed_ms is not None
    since = (
        f" since {format_seconds(snapshot.quiet_ms)}" if snapshot.quiet_ms is not None and is_known else ""
    )
    if view.state == EMPTY.value:
        return f"{snapshot.name} is Empty{since}: it has no members."
    count = len(view.members)
    who = snapshot.labels.format_labels(member.name for member in view.members)
    members = f"{format_count(count, 'member')} ({who})"
    generation = "epoch" if view.type is GroupType.CONSUMER else "generation"
    return f"{snapshot.name} is {view.state}{since} with {members} in {generation} {view.generation_id}."


def _describe_rebalance(snapshot: GroupSnapshot, view: GroupView, rebalance: RebalanceView) -> str:
    if view.state == STABLE.value:
        return _describe_not_fetched(snapshot, view, rebalance)
    trigger = rebalance.trigger
    by = "" if trigger.actor is None else f", by {snapshot.labels.find_label(trigger.actor)}"
    again = f", begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
    begin = (
        f"{snapshot.name} is {view.state} since {format_seconds(rebalance.open_ms)} (cause: "
        f"{trigger.cause}{by}{again})."
    )
    if view.state == PREPARING_REBALANCE.value:
        return f"{begin} {_describe_joining(snapshot, view, rebalance)}"
    return f"{begin} {_describe_syncing(snapshot, view, rebalance)}"


def _describe_joining(snapshot: GroupSnapshot, view: GroupView, rebalance: RebalanceView) -> str:
    present = [member.name for member in view.members if member.is_awaiting_join]
    holds = snapshot.labels.format_labels(present)
    left = format_seconds(rebalance.left_ms)
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
        whom.append(f"the JoinGroup of {_format_awaited(snapshot, members)}")
    if firsts:
        pending = [
            _format_pending(snapshot, one.member, one.silent_ms, one.session_left_ms) for one in firsts
        ]
        whom.append(f"the first JoinGroup of {format_list(pending, _MAX_AWAITED)}")
    held = f" and holds {'that' if len(present) == 1 else 'those'} of {holds}" if present else ""
    return f"It awaits {' and '.join(whom)}{held}. {_describe_join_deadline(snapshot, rebalance, members, firsts)}"


def _describe_join_deadline(
    snapshot: GroupSnapshot,
    rebalance: RebalanceView,
    members: Sequence[AwaitedMember],
    firsts: Sequence[AwaitedMember],
) -> str:
    dynamic = [one for one in members if one.member.group_instance_id is None]
    static = [one for one in members if one.member.group_instance_id is not None]
    present = any(member.is_awaiting_join for member in snapshot.all_members)
    sentences = []
    if rebalance.left_ms and (present or dynamic):
        evicted = ""
        if dynamic:
            evicted = f", when {_format_labels(snapshot, dynamic)} would be evicted"
        elif static:
            evicted = f", without {_format_labels(snapshot, static)}, which keeps its place (static)"
        sentences.append(f"The join phase ends at the latest in {format_seconds(rebalance.left_ms)}{evicted}")
    sentences += [
        f"{snapshot.labels.find_label(one.member)}'s session ends in {format_seconds(one.session_left_ms)}"
        for one in members[:_MAX_AWAITED]
    ]
    if static and not present and not dynamic:
        return "Only static members are left, and the group keeps their places: " + ", ".join(sentences) + "."
    if firsts and not sentences:
        return ""
    return "; ".join(sentences) + "."


def _describe_syncing(snapshot: GroupSnapshot, view: GroupView, rebalance: RebalanceView) -> str:
    leader = [one for one in rebalance.awaited if one.request is AwaitedRequest.ASSIGNMENT]
    others = [one for one in rebalance.awaited if one.request is not AwaitedRequest.ASSIGNMENT]
    whom = []
    if leader:
        whom.append(f"the assignment (SyncGroup) of its leader, {_format_awaited(snapshot, leader)}")
    if others:
        whom.append(f"the SyncGroup of {_format_awaited(snapshot, others)}")
    held = [member.name for member in view.members if member.is_awaiting_sync]
    holds = (
        f" and holds {'that' if len(held) == 1 else 'those'} of {snapshot.labels.format_labels(held)}"
        if held
        else ""
    )
    late = _format_labels(snapshot, rebalance.awaited)
    return (
        f"It awaits {' and '.join(whom)}{holds}. The sync phase ends at the latest in "
        f"{format_seconds(rebalance.left_ms)}, when {late} would be removed."
    )


def _describe_not_fetched(snapshot: GroupSnapshot, view: GroupView, rebalance: RebalanceView) -> str:
    whom = _format_awaited(snapshot, rebalance.awaited)
    return (
        f"{snapshot.name} is Stable in generation {view.generation_id}, but not all have fetched their "
        f"assignment: it awaits the SyncGroup of {whom}. In {format_seconds(rebalance.left_ms)} at the latest "
        f"{_format_labels(snapshot, rebalance.awaited)} would be removed."
    )


def _format_labels(snapshot: GroupSnapshot, awaited: Sequence[AwaitedMember]) -> str:
    return snapshot.labels.format_labels(one.member for one in awaited)


def _format_awaited(snapshot: GroupSnapshot, awaited: Sequence[AwaitedMember]) -> str:
    return format_list([_format_awaited_member(snapshot, one) for one in awaited], _MAX_AWAITED)


def _format_awaited_member(snapshot: GroupSnapshot, one: AwaitedMember) -> str:
    static = (
        ""
        if one.member.group_instance_id is None
        else f"static {format_name(one.member.group_instance_id)}, "
    )
    told_ms = snapshot.history.told_to_rejoin.get(one.member.member_id)
    told_text = (
        "" if told_ms is None else f", told {format_seconds(max(0, snapshot.now.monotonic_ms - told_ms))} ago"
    )
    connection = describe_connection(snapshot.connections.get(one.member.member_id))
    return (
        f"{snapshot.labels.find_label(one.member)} ({static}last heard {format_seconds(one.silent_ms)} "
        f"ago, {connection}{told_text})"
    )


def _format_pending(snapshot: GroupSnapshot, name: MemberName, since_ms: int, left_ms: int) -> str:
    return (
        f"{snapshot.labels.find_label(name)} (given a member id {format_seconds(since_ms)} ago, not back with "
        f"it; forgotten in {format_seconds(left_ms)})"
    )


_MAX_MEMBERS: Final = 5
"""The maximum number of members whose activity is described."""
_ASSIGNING: Final = ConsumerGroupState.ASSIGNING.value


def _describe_consumer_state(snapshot: GroupSnapshot, view: GroupView) -> str:
    """Describe a group that is neither Stable nor Empty. The first sentence begins with its name."""
    count = len(view.members)
    who = snapshot.labels.format_labels(member.name for member in view.members)
    members = f"{format_count(count, 'member')} ({who})"
    sentences = [f"{snapshot.name} is {view.state} in epoch {view.generation_id} with {members}."]
    if view.state == _ASSIGNING:
        sentences.append(
            f"Its target assignment is still that of epoch {view.assignment_epoch}: a heartbeat of a member has "
            f"the next one computed, once group.consumer.assignment.interval.ms is over since the last."
        )
    behind = list(_describe_behind(snapshot, view))
    sentences += behind[:_MAX_MEMBERS]
    if len(behind) > _MAX_MEMBERS:
        sentences.append(f"The same holds for {len(behind) - _MAX_MEMBERS} more.")
    return " ".join(sentences)


def _describe_behind(snapshot: GroupSnapshot, view: GroupView) -> Iterator[str]:
    """Yield sentences about members that are behind the target of a consumer group.

    Members that have to revoke partitions come first, because others wait for them. Then come waiting members, and
    members that have yet to fetch their target.
    """
    members = [(member, member.consumer) for member in view.members if member.consumer is not None]
    for member, consumer in members:
        if consumer.pending:
            yield _describe_revoking(snapshot, member, consumer)
    for member, consumer in members:
        missing = _find_missing(consumer)
        if missing and not consumer.pending:
            yield _describe_waiting(snapshot, member, missing)
    for member, consumer in members:
        if (
            consumer.member_epoch != view.assignment_epoch
            and not consumer.pending
            and not _find_missing(consumer)
        ):
            yield (
                f"{snapshot.labels.find_label(member.name)} is in epoch {consumer.member_epoch} until its "
                f"next heartbeat ({_format_heard(snapshot, member)})."
            )


def _describe_revoking(snapshot: GroupSnapshot, member: MemberView, consumer: ConsumerMemberView) -> str:
    what = _format_partitions(consumer.pending)
    end = f"its session ends in {format_seconds(member.session_left_ms)}"
    if consumer.revokes_left_ms is not None:
        end = f"in {format_seconds(consumer.revokes_left_ms)} it would be fenced"
    return (
        f"{snapshot.labels.find_label(member.name)} must still give up {what} "
        f"({_format_heard(snapshot, member)}); {end}."
    )


def _describe_waiting(
    snapshot: GroupSnapshot, member: MemberView, missing: Mapping[str, Sequence[int]]
) -> str:
    owners = {
        snapshot.labels.find_label(owner.name): None
        for topic, numbers in missing.items()
        for number in numbers
        for owner in snapshot.owners.get((topic, number), ())
    }
    label = snapshot.labels.find_label(member.name)
    if owners:
        return (
            f"{label} waits for {_format_partitions(missing)} of {format_list(list(owners), _MAX_MEMBERS)}."
        )
    return (
        f"{label} is to get {_format_partitions(missing)} with its next heartbeat "
        f"({_format_heard(snapshot, member)})."
    )


def _find_missing(consumer: ConsumerMemberView) -> dict[str, list[int]]:
    """Return the missing partitions of its target assignment."""
    missing = {
        topic: [number for number in numbers if number not in consumer.assigned.get(topic, ())]
        for topic, numbers in consumer.target.items()
    }
    return {topic: numbers for topic, numbers in missing.items() if numbers}


def _format_partitions(partitions: Mapping[str, Sequence[int]]) -> str:
    return format_list(
        [format_ranges(topic, numbers) for topic, numbers in sorted(partitions.items())], _MAX_MEMBERS
    )


def _format_heard(snapshot: GroupSnapshot, member: MemberView) -> str:
    state = snapshot.connections.get(member.name.member_id)
    connection = "" if state is None or state.is_connected or not state.is_heard else ", not connected"
    return f"last heard {format_seconds(member.silent_ms)} ago{connection}"
