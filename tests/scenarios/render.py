"""Messages, records, timers and events as lines of a transcript.

A line shows a field with a meaningful value: not when it is empty, false or Kafka's "none" (-1), and not when the
version at hand does not carry it. A null that the version does carry is shown, for clients tell it from "".
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from coordinator.core.outcome import Fact, Outcome
from coordinator.core.wire_name import get_wire_name
from coordinator.group.event_details import AwaitedMember, Departure, MemberAssignment, MemberName, Trigger
from coordinator.group.group_event_types import (
    AssignmentApplied,
    AssignmentFetched,
    AssignmentReceived,
    CommitRefused,
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupLoaded,
    GroupStabilized,
    LeaderReplaced,
    MemberExpired,
    MemberIdRequired,
    MemberRejoined,
    MembersEvicted,
    MemberToldToRejoin,
    RebalanceAvoided,
    RebalanceCompleted,
    RebalanceStalled,
    RebalanceStarted,
    RebalanceWaits,
    StaticMemberReplaced,
    SyncReceived,
)
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from protocol.codec import decode, encode
from protocol.consumer_protocol import TopicPartitions, decode_assignment, decode_subscription
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from protocol.primitives import Malformed
from protocol.records.group_record_schemas import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import decode_key, decode_value, encode_key, encode_value
from protocol.schema import layout

WALL_EPOCH_MS = 1_700_000_000_000
_QUIET_NULLS = frozenset({"group_instance_id", "error_message"})


def span(milliseconds: int) -> str:
    """A span as people write it: 500ms, 3s, 7d."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def wall(timestamp_ms: int) -> str:
    """A record's Unix time, as time since the story began."""
    return "none" if timestamp_ms == -1 else f"+{span(timestamp_ms - WALL_EPOCH_MS)}"


def reply(name: str, message: Any, version: int) -> str:
    """A response as the client sees it: encoded in its version and decoded again."""
    if isinstance(message, ErrorCode):
        return f"{name} <- EndTransaction {message.name}"
    if isinstance(message, OffsetFetchResponseGroup):
        message = OffsetFetchResponse(groups=[message])
    seen = decode(type(message), version, encode(message, version))
    carried = {entry.name for entry in layout(type(seen), version)} - {"throttle_time_ms"}
    shown = [field for field in seen.__struct_fields__ if field in carried]
    api = type(seen).__name__.removesuffix("Response")
    error = [ErrorCode(seen.error_code).name] if "error_code" in shown else []
    return " ".join([name, "<-", api, *error, *_fields(seen, shown)])


def _fields(message: Any, names: list[str]) -> list[str]:
    words = []
    for name in names:
        value = getattr(message, name)
        if name != "error_code" and _says_something(name, value):
            words.append(f"{name}={_value(name, value)}")
    return words


def _says_something(name: str, value: Any) -> bool:
    if value is None:
        return name not in _QUIET_NULLS
    if isinstance(value, bool):
        return value
    return value != -1 if isinstance(value, int) else len(value) > 0


def _value(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if name == "topics":
        return "[" + ", ".join(_topic(topic) for topic in value) + "]"
    if isinstance(value, bytes):
        return _bytes(name, value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(name, element) for element in value) + "]"
    if isinstance(value, Struct):
        return _struct(value)
    return str(value)


def _struct(value: Any) -> str:
    """Render a nested struct: its name first, errors by name."""
    names = [name for name in value.__struct_fields__ if name not in ("error_code", "authorized_operations")]
    words = _fields(value, names)
    if getattr(value, "error_code", 0):
        words.append(ErrorCode(value.error_code).name)
    return "{" + " ".join(words) + "}"


def _topic(topic: Any) -> str:
    """`orders:0=42/epoch 3 (note), orders:1 ERROR`."""
    words = []
    for partition in topic.partitions:
        text = f"{topic.name}:{partition.partition_index}"
        if hasattr(partition, "committed_offset"):
            text += f"={partition.committed_offset}"
            text += (
                f"/epoch {partition.committed_leader_epoch}" if partition.committed_leader_epoch >= 0 else ""
            )
            text += f" ({partition.metadata})" if partition.metadata else ""
        words.append(text + (f" {ErrorCode(partition.error_code).name}" if partition.error_code else ""))
    return ", ".join(words)


def _bytes(name: str, data: bytes) -> str:
    """Return the decoded bytes of the consumer protocol, or the bytes themselves."""
    read: Callable[[bytes], str] = _assignment if name.endswith("assignment") else _subscription
    try:
        return read(data)
    except Malformed:
        return repr(data)


def _assignment(data: bytes) -> str:
    return _partitions(decode_assignment(data).assigned_partitions) if data else "nothing"


def _subscription(data: bytes) -> str:
    subscription = decode_subscription(data)
    owned = subscription.owned_partitions
    return "<" + " ".join([*subscription.topics, *(["owns", _partitions(owned)] if owned else [])]) + ">"


def _partitions(topics: Sequence[TopicPartitions]) -> str:
    words = (f"{topic.topic}:{number}" for topic in topics for number in topic.partitions)
    return " ".join(words) or "nothing"


def record(entry: Fact) -> str:
    """A record, encoded and decoded, so that it has only the fields that its version stores."""
    key = decode_key(encode_key(entry.key))
    what = f"{key.topic}:{key.partition}" if isinstance(key, OffsetCommitKey) else "metadata"
    line = f"record {entry.key.group} {what}"
    if entry.value is None:
        return f"{line} tombstone"
    assert key == entry.key, f"{entry.key} is read back as {key}"
    value = decode_value(entry.key, encode_value(entry.value, entry.value_version))
    if isinstance(value, GroupMetadataValue):
        words = [line, *_fields(value, ["protocol_type", "generation", "protocol", "leader"])]
        words.append(f"since={wall(value.current_state_timestamp)}")
        return " ".join([*words, *map(_member, value.members)])
    assert isinstance(value, OffsetCommitValue)
    line += f" offset={value.offset}" + (f" epoch={value.leader_epoch}" if value.leader_epoch >= 0 else "")
    line += f" ({value.metadata})" if value.metadata else ""
    expires = f" expires={wall(value.expire_timestamp)}" if value.expire_timestamp != -1 else ""
    return f"{line} committed={wall(value.commit_timestamp)}{expires}"


def _member(member: MemberMetadata) -> str:
    words = [member.member_id]
    words += [] if member.group_instance_id is None else [f"instance={member.group_instance_id}"]
    words += [f"session={span(member.session_timeout)}", f"rebalance={span(member.rebalance_timeout)}"]
    words += [_bytes("subscription", member.subscription), _bytes("assignment", member.assignment)]
    return "{" + " ".join(words) + "}"


def event(entry: GroupEvent) -> str:
    """A fact for people."""
    member = {} if entry.member is None else entry.member._asdict() | {"leader_id": entry.member.member_id}
    values = member | asdict(entry)
    if isinstance(entry, RebalanceCompleted) and entry.latest == entry.trigger:
        values["latest"] = None
    own = (name for name in type(entry).__struct_fields__ if name not in _COMMON)
    shown = (
        _SHOWN[type(entry)].split() if type(entry) in _SHOWN else [*(_MEMBER if entry.member else ()), *own]
    )
    words = [f"{name}={_plain(values[name], name)}" for name in shown if _matters(name, values.get(name))]
    if isinstance(entry, RebalanceStarted):
        words.append(f"reason={_plain(entry.trigger.reason)}")
    return " ".join(["event", get_wire_name(type(entry)), entry.group_id or "''", *words])


_COMMON = ("group_id", "generation_id", "member")
_MEMBER = ("member_id", "group_instance_id", "client_id")
_SHOWN: Mapping[type[GroupEvent], str] = {
    MemberIdRequired: "member_id state",
    StaticMemberReplaced: "group_instance_id old_member_id member_id client_id state",
    RebalanceAvoided: "group_instance_id member_id generation_id",
    RebalanceStarted: "state generation_id trigger",
    RebalanceWaits: ("state generation_id trigger attempts waited_ms left_ms members awaited is_initial"),
    RebalanceCompleted: (
        "state from_state generation_id protocol_type protocol_name leader_id trigger latest attempts started_ms "
        "ended_ms join_ms sync_ms last_joined members gone"
    ),
    RebalanceStalled: "generation_id members",
    GroupStabilized: "generation_id members leader_id protocol_name",
    AssignmentReceived: "leader_id generation_id members static_members missing",
    AssignmentApplied: "generation_id members",
    GroupEmptied: "generation_id",
    MemberExpired: "member_id group_instance_id client_id pending is_new silent_ms timeout_ms",
    MembersEvicted: "members phase",
    LeaderReplaced: "old_leader_id leader_id",
    GroupDeleted: "offsets reason",
    GroupLoaded: "state generation_id members",
    CommitRefused: (
        "member_id group_instance_id client_id error state detail generation_id partitions is_transactional"
    ),
}
"""The fields of an event in this order; other events show the member and their own fields."""
_UNSHOWN = (MemberRejoined, MemberToldToRejoin, SyncReceived, AssignmentFetched)
"""What the replies show."""


def _matters(name: str, value: Any) -> bool:
    """Return whether to show a field: not if it is empty or the common host."""
    hosts = ("client_host", "sender_host")
    return name not in hosts and value is not False and value not in (None, "", ())


def _plain(value: Any, name: str = "") -> str:
    match value:
        case MemberName(member_id):
            return member_id
        case Trigger(cause, _, actor):
            return f"'{cause.value}'" + ("" if actor is None else f" by {actor.member_id}")
        case MemberAssignment(member, _, assignment):
            return f"{member.member_id}{' (new)' if value.is_new else ''} {_bytes('assignment', assignment)}"
        case Departure(member, cause, _):
            return f"{member.member_id} ({cause.value})"
        case AwaitedMember(member, request, silent_ms, session_left_ms, left_ms):
            spans = f"silent {span(silent_ms)}, session {span(session_left_ms)}, at most {span(left_ms)}"
            return f"{request.value} of {member.member_id} ({spans})"
        case int() if name.endswith("_ms"):
            return span(value)
    if isinstance(value, Enum):
        value = value.name if isinstance(value, ErrorCode) else value.value
    if isinstance(value, tuple):
        named = zip(getattr(value, "_fields", [""] * len(value)), value, strict=True)
        return (
            "["
            + ", ".join(f"{key}={_plain(part, key)}" if key else _plain(part) for key, part in named)
            + "]"
        )
    return f"'{value}'" if isinstance(value, str) and " " in value else str(value)


def timer(key: GroupTimerKey) -> str:
    """`heartbeat g A-1`, `join g`."""
    return " ".join(part for part in (key.kind.name.lower(), key.group_id, key.member_id) if part)


def outcome(result: Outcome, names: dict[int, tuple[str, int]], now_ms: int) -> list[str]:
    """Render an outcome: events, records, timers, responses; `names` has the client and version of each request.

    The timers of the retention check and of rebalance reports are left out: they are set again and again.
    """
    lines = [event(entry) for entry in result.events if not isinstance(entry, _UNSHOWN)]
    of_whom = "" if result.in_transaction is None else f" of producer {result.in_transaction.producer_id}"
    lines += [record(entry) + of_whom for entry in result.records]
    if result.marker is not None:
        kind = "commit" if result.marker.is_committed else "abort"
        lines.append(f"marker {kind} of producer {result.marker.producer_id}")
    for key, deadline in result.timers.items():
        if key.kind not in (GroupTimerKind.EXPIRE_OFFSETS, GroupTimerKind.REPORT):
            lines.append(
                f"timer {timer(key)} " + ("off" if deadline is None else f"in {span(deadline - now_ms)}")
            )
    return lines + [reply(names[waiter][0], message, names[waiter][1]) for waiter, message in result.replies]
