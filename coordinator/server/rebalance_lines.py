"""Rebalances told to people: whom a group waits for, and what came of it. In: events whose texts are printable."""

from collections.abc import Mapping
from typing import Final

from coordinator.group.events import RebalanceCompleted, RebalanceWaits
from coordinator.group.rebalance_facts import Awaited, AwaitedRequest, RebalanceCause, Trigger
from coordinator.group.state import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.server.log_words import assignment, count, listed, member, member_at, seconds, short_id

_MAX_AWAITED: Final = 5
_MAX_MEMBERS: Final = 10
_LONG_MS: Final = 1_000
"""Of a rebalance that takes longer it is told where the time went."""

_CAUSES: Final[Mapping[RebalanceCause, str]] = {
    RebalanceCause.MEMBER_JOINED: "{} joined",
    RebalanceCause.LEADER_REJOINED: "the leader {} rejoined",
    RebalanceCause.METADATA_CHANGED: "{} rejoined with changed metadata",
    RebalanceCause.STATIC_MEMBER_REPLACED: "static member {} was restarted",
    RebalanceCause.MEMBER_LEFT: "{} left",
    RebalanceCause.SESSION_EXPIRED: "the session of {} expired",
    RebalanceCause.SYNC_EXPIRED: "{} did not ask for its assignment in time",
    RebalanceCause.ASSIGNMENT_TOO_LARGE: "the assignment of the leader {} was too large for the log",
}


def trigger_words(trigger: Trigger) -> str:
    """`bob-e4fa5815 at 127.0.0.1 left (reason: the consumer is being closed)`."""
    if trigger.actor is None or trigger.cause not in _CAUSES:
        return trigger.reason
    words = _CAUSES[trigger.cause].format(member_at(trigger.actor))
    return f"{words} (reason: {trigger.client_reason})" if trigger.client_reason else words


def waits(event: RebalanceWaits) -> str:
    """Whom the group waits for."""
    whom = listed([_whom(one) for one in event.awaited[:_MAX_AWAITED]], len(event.awaited))
    most = f"{seconds(event.left_ms)} more at most"
    if event.trigger is None:
        return (
            f"Group {event.group_id} is Stable in generation {event.generation_id}, but {len(event.awaited)} of "
            f"{count(event.members, 'member')} did not ask for the assignment in {seconds(event.waited_ms)}: "
            f"{whom}. It waits {most}."
        )
    again = f", begun {event.attempts} times" if event.attempts > 1 else ""
    since = (
        f"Group {event.group_id} has been rebalancing for {seconds(event.waited_ms)}{again} "
        f"({trigger_words(event.trigger)})"
    )
    if event.is_initial:
        return (
            f"{since}: {count(event.members, 'member')} joined. It waits for others to join, "
            f"{seconds(event.left_ms)} more and longer while they come (group.initial.rebalance.delay.ms)."
        )
    if not event.awaited:
        # Somebody was sent away for group.max.size, and Kafka ends the join phase by its timer only.
        left = seconds(event.left_ms)
        return f"{since}: all {count(event.members, 'member')} joined, the join phase ends in {left}."
    present = event.members - sum(one.request is not AwaitedRequest.FIRST_JOIN for one in event.awaited)
    if event.state == PREPARING_REBALANCE.value:
        if not present and all(one.member.group_instance_id is not None for one in event.awaited):
            most = "until one of them comes or its session ends"
        return (
            f"{since}: {present} of {count(event.members, 'member')} joined. It waits for the JoinGroup of "
            f"{whom}, {most}."
        )
    return (
        f"{since}: all joined, {present} of {count(event.members, 'member')} asked for the assignment. It waits "
        f"for the SyncGroup of {whom}, {most}."
    )


def _whom(one: Awaited) -> str:
    who = member_at(one.member)
    silent, left = seconds(one.silent_ms), seconds(one.session_left_ms)
    if one.request is AwaitedRequest.FIRST_JOIN:
        return f"{who} (got this member id {silent} ago and did not come back; forgotten in {left})"
    leader = "the leader, which assigns; " if one.request is AwaitedRequest.ASSIGNMENT else ""
    return f"{who} ({leader}last heard {silent} ago, session ends in {left})"


def completed(event: RebalanceCompleted) -> str:
    """What came of a rebalance: how long, why, who is gone, who got what."""
    took = seconds(event.ended_ms - event.started_ms) + _spent(event)
    result = f"Rebalanced group {event.group_id} to generation {event.generation_id} in {took}"
    sentences = [f"{result}: {trigger_words(event.trigger)}{_if_gone(event)}."]
    if event.attempts > 1:
        sentences.append(
            f"It took {event.attempts} attempts, the last because {trigger_words(event.latest)}."
        )
    actors = {event.trigger.actor, event.latest.actor}
    gone = [one for one in event.gone if one.member not in actors]
    if gone:
        texts = [f"{member(one.member)} ({one.cause.value})" for one in gone[:_MAX_MEMBERS]]
        sentences.append(f"Also gone: {listed(texts, len(gone))}.")
    sentences.append("It is empty now." if event.state == EMPTY.value else _members(event))
    return " ".join(sentences)


def _if_gone(event: RebalanceCompleted) -> str:
    """Who joins and does not stay was in no generation, so that it is not among those who left one."""
    actor = event.trigger.actor
    if actor is None or event.trigger.cause is not RebalanceCause.MEMBER_JOINED:
        return ""
    # A static member that was restarted meanwhile has another id.
    known = {one.member.group_instance_id or one.member.member_id for one in event.members}
    return "" if (actor.group_instance_id or actor.member_id) in known else ", and is gone again"


def _spent(event: RebalanceCompleted) -> str:
    if event.ended_ms - event.started_ms < _LONG_MS:
        return ""
    join = f"join phase {seconds(event.join_ms)}"
    if event.from_state == EMPTY.value and event.join_ms >= _LONG_MS:
        join += " with group.initial.rebalance.delay.ms"
    elif event.last_joined is not None and event.join_ms >= _LONG_MS:
        join += f", {member(event.last_joined)} came last"
    if event.state != STABLE.value:
        return f" ({join})"
    return f" ({join}; sync phase {seconds(event.sync_ms)})"


def _members(event: RebalanceCompleted) -> str:
    members = event.members
    new = sum(one.is_new for one in members)
    left_out = sum(not one.assignment for one in members)
    said = [count(len(members), "member")]
    if new:
        said.append("all new" if new == len(members) else f"{new} new")
    if left_out:
        said.append(f"{left_out} left out by the leader")
    texts = [
        f"{member(one.member)}{' (new)' if one.is_new and new < len(members) else ''} "
        f"{assignment(one.assignment, event.protocol_type)}"
        for one in members[:_MAX_MEMBERS]
    ]
    leader = short_id(event.leader_id or "")
    return (
        f"{', '.join(said)}, assigned by {leader} ({event.protocol_name}): "
        f"{listed(texts, len(members), '; ')}."
    )
