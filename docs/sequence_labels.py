"""Short labels of requests, responses and events, for the arrows and notes of `docs/sequence_diagram.py`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from coordinator.core.wire_name import get_wire_name
from coordinator.group.group_event_types import (
    AssignmentApplied,
    AssignmentFetched,
    AssignmentReceived,
    CommitRefused,
    GroupEmptied,
    GroupEvent,
    GroupLoaded,
    GroupStabilized,
    HeartbeatRefused,
    JoinRefused,
    MemberExpired,
    MemberFenced,
    MemberIdRequired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MembersEvicted,
    MemberToldToRejoin,
    OffsetsCommitted,
    RebalanceAvoided,
    RebalanceCompleted,
    RebalanceDelayed,
    RebalanceStarted,
    RebalanceWaits,
    StaticMemberReplaced,
    SyncReceived,
    SyncRefused,
)
from coordinator.group.group_requests import FetchOffsets
from protocol.consumer_protocol import TopicPartitions, decode_assignment, decode_subscription
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.scenarios.client import shorten
from tests.scenarios.requests import NEWEST

_OK: Final = "ok"


def request_label(message: Any, member_id: str, version: int) -> str:
    """Return the label of a request. It has the version unless that is the newest, and the member id unless a
    dynamic member sends its own `member_id`."""
    match message:
        case JoinGroupRequest():
            label = _version("JoinGroup", "join", version) + _join(message)
        case SyncGroupRequest():
            label = _version("SyncGroup", "sync", version) + _generation(message.generation_id)
            if message.assignments:
                parts = (
                    f"{one.member_id} has {assignment_label(one.assignment)}" for one in message.assignments
                )
                label += f": {', '.join(parts)}"
        case HeartbeatRequest():
            label = _version("Heartbeat", "heartbeat", version) + _generation(message.generation_id)
        case LeaveGroupRequest():
            reasons = dict.fromkeys(member.reason for member in message.members if member.reason)
            label = _version("LeaveGroup", "leave", version) + "".join(f" ({text})" for text in reasons)
        case OffsetCommitRequest():
            generation = _generation(message.generation_id_or_member_epoch)
            label = _version("OffsetCommit", "commit", version) + generation + ": " + _offsets(message.topics)
        case FetchOffsets():
            topics = message.group.topics or ()
            asked = (f"{topic.name}:{_numbers(topic.partition_indexes)}" for topic in topics)
            label = f"OffsetFetch {', '.join(asked) or 'of every partition'}"
        case _:
            raise TypeError(f"no label for the request {type(message).__name__}")
    return shorten(label + _sender(message, member_id))


def reply_label(message: Any) -> str:
    """Return the label of a response."""
    error = ErrorCode(getattr(message, "error_code", 0))
    match message:
        case JoinGroupResponse() if error is ErrorCode.MEMBER_ID_REQUIRED:
            label = f"JoinGroup: {error.name}, your id is {message.member_id}"
        case JoinGroupResponse() if error is ErrorCode.NONE:
            label = f"JoinGroup: {_joined(message)}"
        case SyncGroupResponse() if error is ErrorCode.NONE:
            label = f"SyncGroup: you have {assignment_label(message.assignment)}"
        case OffsetCommitResponse():
            label = "OffsetCommit: " + _errors(part for topic in message.topics for part in topic.partitions)
        case OffsetFetchResponseGroup():
            label = "OffsetFetch: " + (_offsets(message.topics) or "nothing was committed")
        case LeaveGroupResponse() if error is ErrorCode.NONE:
            label = "LeaveGroup: " + _errors(message.members)
        case _:
            api = type(message).__name__.removesuffix("Response")
            label = f"{api}: {error.name if error else _OK}"
    return shorten(label)


EVENTS: Final[Mapping[type[GroupEvent], str | None]] = {
    AssignmentApplied: "generation {generation_id} has its assignment",
    AssignmentFetched: None,
    AssignmentReceived: None,
    CommitRefused: None,
    GroupEmptied: "generation {generation_id} has no member",
    GroupLoaded: "restarts and reads its log: {state}, generation {generation_id}, members: {members}",
    GroupStabilized: "generation {generation_id} begins, members: {members}, {leader_id} leads",
    HeartbeatRefused: None,
    JoinRefused: None,
    MemberExpired: "session of {member.member_id} expired: removed",
    MemberFenced: None,
    MemberIdRequired: None,
    MemberJoined: "{member.member_id} is a member",
    MemberLeft: "{member.member_id} is removed",
    MemberRejoined: None,
    SyncReceived: None,
    MemberToldToRejoin: None,
    MembersEvicted: "too late: {members} removed",
    OffsetsCommitted: None,
    RebalanceAvoided: "no change for the other members: no rebalance",
    RebalanceCompleted: None,
    RebalanceDelayed: "more members joined",
    RebalanceStarted: "a rebalance begins: {trigger.cause}",
    RebalanceWaits: None,
    StaticMemberReplaced: "{member.group_instance_id}: {member.member_id} replaces {old_member_id}",
    SyncRefused: None,
}
"""Labels of events; None if the arrows and the state already show the event."""


def event_label(event: GroupEvent) -> str | None:
    """Return the label of an event, by default its name; None if the diagram shows it already."""
    template = EVENTS.get(type(event), get_wire_name(type(event)))
    values = asdict(event)
    if isinstance(event, MembersEvicted):
        values["members"] = ", ".join(name.member_id for name in event.members)
    return None if template is None else shorten(template.format_map(values))


def _sender(message: Any, member_id: str) -> str:
    if isinstance(message, FetchOffsets | JoinGroupRequest):
        return ""
    members = message.members if isinstance(message, LeaveGroupRequest) else [message]
    is_static = any(member.group_instance_id is not None for member in members)
    return f", as {message.member_id}" if is_static or message.member_id != member_id else ""


def _version(api: str, verb: str, version: int) -> str:
    return api if version == NEWEST[verb] else f"{api} v{version}"


def _generation(generation_id: int) -> str:
    return f" in generation {generation_id}" if generation_id >= 0 else ""


def _join(message: JoinGroupRequest) -> str:
    words = [f" as {message.member_id}" if message.member_id else " without a member id"]
    if message.group_instance_id is not None:
        words.append(f"instance {message.group_instance_id}")
    subscription = decode_subscription(message.protocols[0].metadata)
    words.append(f"topics {' '.join(subscription.topics)}")
    if subscription.owned_partitions:
        words.append(f"owns {_partitions(subscription.owned_partitions)}")
    return ", ".join(words) + (f" ({message.reason})" if message.reason else "")


def _joined(message: JoinGroupResponse) -> str:
    label = f"generation {message.generation_id}"
    if message.leader != message.member_id:
        return f"{label}, {message.leader} leads"
    label += ", you lead"
    if message.skip_assignment:
        return label + " and do not assign"
    members = []
    for member in message.members:
        owned = decode_subscription(member.metadata).owned_partitions
        members.append(member.member_id + (f" (owns {_partitions(owned)})" if owned else ""))
    return f"{label}, protocol {message.protocol_name}, members {', '.join(members)}"


def assignment_label(data: bytes) -> str:
    """Return the label of an assignment."""
    return _partitions(decode_assignment(data).assigned_partitions) if data else "nothing"


def _partitions(topics: Iterable[TopicPartitions]) -> str:
    return " ".join(f"{topic.topic}:{_numbers(topic.partitions)}" for topic in topics) or "nothing"


def _numbers(partitions: Iterable[int]) -> str:
    return ",".join(map(str, partitions))


def _offsets(topics: Iterable[Any]) -> str:
    return " ".join(
        f"{topic.name}:{part.partition_index}={part.committed_offset}"
        for topic in topics
        for part in topic.partitions
    )


def _errors(parts: Iterable[Any]) -> str:
    names = dict.fromkeys(ErrorCode(part.error_code).name if part.error_code else _OK for part in parts)
    return ", ".join(names) or _OK
