"""Formats group events as sentences: rebalances (cause, awaited members, result) and refused requests
(sender, request, reason). Texts of the events must be printable.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.message_text import format_count, format_list, format_seconds
from coordinator.group.classic.classic_state_machine import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.group.event_details import (
    AwaitedMember,
    AwaitedRequest,
    GenerationDiffers,
    GroupFull,
    MemberIdTooLong,
    MetadataTooLong,
    ProtocolsDiffer,
    RebalanceCause,
    RecordsTooLarge,
    RefusalDetail,
    SessionTimeoutOutOfRange,
    Trigger,
)
from coordinator.group.group_event_types import (
    CommitRefused,
    HeartbeatRefused,
    JoinRefused,
    RebalanceCompleted,
    RebalanceWaits,
    RequestRefused,
    SyncRefused,
)
from coordinator.group.member_text import (
    format_assignment,
    format_member,
    format_member_address,
    format_member_client,
    printable_name,
    shorten_member_id,
)
from protocol.error_codes import ErrorCode

_MAX_AWAITED: Final = 5
_MAX_MEMBERS: Final = 10
_MAX_LISTED: Final = 10
_LONG_MS: Final = 1_000
"""Duration in milliseconds from which a rebalance's line contains the durations of its phases."""

_CAUSES: Final[Mapping[RebalanceCause, str]] = {
    RebalanceCause.MEMBER_JOINED: "{} joined",
    RebalanceCause.LEADER_REJOINED: "the leader {} rejoined",
    RebalanceCause.METADATA_CHANGED: "{} rejoined with changed metadata",
    RebalanceCause.STATIC_MEMBER_REPLACED: "static member {} was restarted",
    RebalanceCause.MEMBER_LEFT: "{} left",
    RebalanceCause.SESSION_EXPIRED: "the session of {} expired",
    RebalanceCause.SYNC_EXPIRED: "{} did not send SyncGroup in time",
    RebalanceCause.ASSIGNMENT_TOO_LARGE: "the assignment of the leader {} was too large for the log",
}

_REQUESTS: Final[dict[type[RequestRefused], str]] = {
    JoinRefused: "JoinGroup",
    SyncRefused: "SyncGroup",
    HeartbeatRefused: "Heartbeat",
    CommitRefused: "OffsetCommit",
}


def format_trigger(trigger: Trigger) -> str:
    """Return the cause of a rebalance, such as `bob-e4fa5815 at 127.0.0.1 left (reason: ...)`."""
    if trigger.actor is None or trigger.cause not in _CAUSES:
        return trigger.reason
    text = _CAUSES[trigger.cause].format(format_member_address(trigger.actor))
    return f"{text} (reason: {trigger.client_reason})" if trigger.client_reason else text


def format_waits(event: RebalanceWaits) -> str:
    """Return the sentences about a rebalance that waits: since when, why, and for which members."""
    awaited = format_list([_format_awaited(one) for one in event.awaited[:_MAX_AWAITED]], len(event.awaited))
    most = f"{format_seconds(event.left_ms)} more at most"
    if event.trigger is None:
        return (
            f"Group {event.group_id} is Stable in generation {event.generation_id}, but "
            f"{len(event.awaited)} of {format_count(event.members, 'member')} did not request the "
            f"assignment in {format_seconds(event.waited_ms)}: {awaited}. It waits {most}."
        )
    again = f", begun {event.attempts} times" if event.attempts > 1 else ""
    since = (
        f"Group {event.group_id} has been rebalancing for {format_seconds(event.waited_ms)}{again} "
        f"({format_trigger(event.trigger)})"
    )
    if event.is_initial:
        return (
            f"{since}: {format_count(event.members, 'member')} joined. It waits for others to join, "
            f"{format_seconds(event.left_ms)} more and longer while they come (group.initial.rebalance.delay.ms)."
        )
    if not event.awaited:
        # The group rejected a member because of group.max.size, and Kafka ends the join phase only by its timer.
        left = format_seconds(event.left_ms)
        return f"{since}: all {format_count(event.members, 'member')} joined, the join phase ends in {left}."
    present = event.members - sum(one.request is not AwaitedRequest.FIRST_JOIN for one in event.awaited)
    if event.state == PREPARING_REBALANCE.value:
        if not present and all(one.member.group_instance_id is not None for one in event.awaited):
            most = "until one of them comes or its session ends"
        return (
            f"{since}: {present} of {format_count(event.members, 'member')} joined. It waits for the JoinGroup of "
            f"{awaited}, {most}."
        )
    return (
        f"{since}: all joined, {present} of {format_count(event.members, 'member')} requested the "
        f"assignment. It waits for the SyncGroup of {awaited}, {most}."
    )


def _format_awaited(one: AwaitedMember) -> str:
    who = format_member_address(one.member)
    silent, left = format_seconds(one.silent_ms), format_seconds(one.session_left_ms)
    if one.request is AwaitedRequest.FIRST_JOIN:
        return f"{who} (got this member id {silent} ago and did not join with it; forgotten in {left})"
    leader = "the leader; " if one.request is AwaitedRequest.ASSIGNMENT else ""
    return f"{who} ({leader}last heard {silent} ago, session ends in {left})"


def format_completed(event: RebalanceCompleted) -> str:
    """Return the sentences about a completed rebalance: duration, cause, lost members, and assignments."""
    duration = format_seconds(event.ended_ms - event.started_ms) + _format_phases(event)
    result = f"Rebalanced group {event.group_id} to generation {event.generation_id} in {duration}"
    sentences = [f"{result}: {format_trigger(event.trigger)}{_format_if_gone(event)}."]
    if event.attempts > 1:
        sentences.append(
            f"It took {event.attempts} attempts, the last because {format_trigger(event.latest)}."
        )
    actors = {event.trigger.actor, event.latest.actor}
    gone = [one for one in event.gone if one.member not in actors]
    if gone:
        texts = [f"{format_member(one.member)} ({one.cause.value})" for one in gone[:_MAX_MEMBERS]]
        sentences.append(f"Also gone: {format_list(texts, len(gone))}.")
    sentences.append("It is empty now." if event.state == EMPTY.value else _format_members(event))
    return " ".join(sentences)


def _format_if_gone(event: RebalanceCompleted) -> str:
    """Return a remark if the joining member has left again. It was in no generation, so `event.gone` lacks it."""
    actor = event.trigger.actor
    if actor is None or event.trigger.cause is not RebalanceCause.MEMBER_JOINED:
        return ""
    # A restarted static member has another id.
    known = {one.member.group_instance_id or one.member.member_id for one in event.members}
    return "" if (actor.group_instance_id or actor.member_id) in known else ", and is gone again"


def _format_phases(event: RebalanceCompleted) -> str:
    if event.ended_ms - event.started_ms < _LONG_MS:
        return ""
    join = f"join phase {format_seconds(event.join_ms)}"
    if event.from_state == EMPTY.value and event.join_ms >= _LONG_MS:
        join += " with group.initial.rebalance.delay.ms"
    elif event.last_joined is not None and event.join_ms >= _LONG_MS:
        join += f", {format_member(event.last_joined)} came last"
    if event.state != STABLE.value:
        return f" ({join})"
    return f" ({join}; sync phase {format_seconds(event.sync_ms)})"


def _format_members(event: RebalanceCompleted) -> str:
    members = event.members
    new = sum(one.is_new for one in members)
    left_out = sum(not one.assignment for one in members)
    counts = [format_count(len(members), "member")]
    if new:
        counts.append("all new" if new == len(members) else f"{new} new")
    if left_out:
        counts.append(f"{left_out} left out by the leader")
    texts = [
        f"{format_member(one.member)}{' (new)' if one.is_new and new < len(members) else ''} "
        f"{format_assignment(one.assignment, event.protocol_type)}"
        for one in members[:_MAX_MEMBERS]
    ]
    leader = shorten_member_id(event.leader_id or "")
    return (
        f"{', '.join(counts)}, assigned by {leader} ({event.protocol_name}): "
        f"{format_list(texts, len(members), '; ')}."
    )


def format_refusal(event: RequestRefused) -> str:
    """Return the sentence about a refused request, with its reason."""
    request = _REQUESTS[type(event)]
    if isinstance(event, CommitRefused) and event.is_transactional:
        request = "TxnOffsetCommit"
    if event.partitions is not None:
        request += f" of {format_count(event.partitions, 'partition')}"
    state = f" ({event.state})" if event.state else ""
    why = format_reason(event)
    because = f": {why}" if why else ""
    return (
        f"Group {event.group_id}{state} refused {request} from {_format_sender(event)}: "
        f"{event.error.name}{because}."
    )


def format_reason(event: RequestRefused) -> str:
    """Return the reason of a refusal beyond the name of the error; "" without one."""
    return _format_error(event) if event.detail is None else _format_detail(event.detail)


def _format_sender(event: RequestRefused) -> str:
    if not event.member.member_id:
        kind = "new" if isinstance(event, JoinRefused) else "no member id"
        return f"{format_member_client(event.member)} ({kind})"
    return format_member_address(printable_name(event.member))


def _format_error(event: RequestRefused) -> str:
    match event.error:
        case ErrorCode.UNKNOWN_MEMBER_ID if not event.state:
            return "the group does not exist"
        case ErrorCode.UNKNOWN_MEMBER_ID if event.state == EMPTY.value:
            return "the group has no members"
        case ErrorCode.UNKNOWN_MEMBER_ID if event.member.group_instance_id is not None:
            return f"no member has the group.instance.id {event.member.group_instance_id}"
        case ErrorCode.UNKNOWN_MEMBER_ID:
            return (
                "no member has this id"
                if event.member.member_id
                else "the group has members, but not this one"
            )
        case ErrorCode.ILLEGAL_GENERATION | ErrorCode.GROUP_ID_NOT_FOUND if not event.state:
            return "the group does not exist"
        case ErrorCode.REBALANCE_IN_PROGRESS:
            return "the assignment of the new generation is still awaited"
    return ""


def _format_detail(detail: RefusalDetail) -> str:
    match detail:
        case SessionTimeoutOutOfRange(asked, shortest, longest):
            return (
                f"session.timeout.ms={asked} is not between group.min.session.timeout.ms={shortest} and "
                f"group.max.session.timeout.ms={longest}"
            )
        case GroupFull(members, max_size):
            return f"the group has {format_count(members, 'member')}, group.max.size={max_size}"
        case ProtocolsDiffer(protocol_type, names, group_type, group_names):
            has = _format_protocols(group_type, group_names)
            return f"it offers {_format_protocols(protocol_type, names)}; the group has {has}"
        case GenerationDiffers(sent, current):
            return f"it is in generation {sent}, the group in {current}"
        case MetadataTooLong(length, max_length):
            return f"metadata of {length} characters, offset.metadata.max.bytes={max_length}"
        case RecordsTooLarge(max_bytes):
            return f"the records would be larger than message.max.bytes={max_bytes}"
        case MemberIdTooLong(max_bytes):
            return f"its member id would be longer than {max_bytes} bytes"


def _format_protocols(protocol_type: str | None, names: tuple[str, ...]) -> str:
    """Return the protocols as text, such as `consumer: range, roundrobin`."""
    return f"{protocol_type or 'no type'}: {format_list(names[:_MAX_LISTED], len(names)) or 'no protocol'}"
