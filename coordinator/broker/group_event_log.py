"""What happens in groups and topics, as lines of a log.

One line an event. At INFO a rebalance is the line of what happened to a member, if anything did, lines for whom the
group waits where it takes ten seconds and more, and one that sums it up. Its steps follow at DEBUG, in Kafka's
words, so that what people search for is there. What every client does all the time (heartbeats, commits) has no
line. Source: the log statements of Kafka's `GroupMetadataManager` and `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from typing import Any, Final

from msgspec.structs import asdict

from coordinator.engine.partition import Partition
from coordinator.group.events import (
    AssignmentApplied,
    AssignmentFetched,
    AssignmentReceived,
    CommitRefused,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    GroupStabilized,
    HeartbeatRefused,
    JoinRefused,
    LeaderReplaced,
    MemberExpired,
    MemberFenced,
    MemberIdRequired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MembersEvicted,
    MemberToldToRejoin,
    MixedCommits,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsPending,
    OffsetsSkipped,
    RebalanceAvoided,
    RebalanceCompleted,
    RebalanceDelayed,
    RebalanceStalled,
    RebalanceStarted,
    RebalanceWaits,
    Refused,
    SimpleGroupCreated,
    StaticMemberReplaced,
    SubscriptionUnreadable,
    SyncReceived,
    SyncRefused,
    TransactionEnded,
)
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Outcome
from coordinator.net.peer import MAX_PRINTED, printable
from coordinator.server.consumer_group_lines import CONSUMER_LINES
from coordinator.server.line_limit import LineLimit
from coordinator.server.log_words import client, client_of, count, listed, member_at, printable_name, seconds
from coordinator.server.rebalance_lines import completed, waits
from coordinator.server.refusal_lines import refused
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition

_GROUPS: Final = logging.getLogger("GroupCoordinator")

_MAX_REASON: Final = 1000  # it holds names, and what a client says in 255 characters
_MAX_LISTED: Final = 20

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
Template = str | Callable[[Any], str]
"""The text with names of fields in braces; or what makes the text of an event whose texts are printable."""


def _joined(event: MemberJoined) -> str:
    member, who = event.member, client_of(event.member)
    if member.group_instance_id is not None:
        return (
            f"Static member with groupInstanceId={member.group_instance_id} and unknown member id joins group "
            f"{event.group_id} in {event.state} state. Created a new member id {member.member_id} (client {who})."
        )
    if event.pending:
        return (
            f"Pending dynamic member with id {member.member_id} joins group {event.group_id} in {event.state} "
            f"state (client {who}). Adding to the group now."
        )
    return (
        f"Dynamic member with unknown member id joins group {event.group_id} in {event.state} state. Created a new "
        f"member {member.member_id} (client {who}) and added it to the group."
    )


def _replaced(event: StaticMemberReplaced) -> str:
    member = event.member
    return (
        f"Static member with groupInstanceId={member.group_instance_id} and unknown member id joins group "
        f"{event.group_id} in {event.state} state. Replacing previously mapped member {event.old_member_id} with "
        f"{member.member_id} (client {client_of(member)})."
    )


def _left(event: MemberLeft) -> str:
    member, sender = event.member, (event.sender_id, event.sender_host)
    kind = "Pending member" if event.pending else "Member"
    static = "" if member.group_instance_id is None else f" groupInstanceId={member.group_instance_id}"
    by = "" if sender == (member.client_id, member.client_host) else f" of {client(*sender)}"
    return (
        f"{kind} {member.member_id}{static} (client {client_of(member)}) has left group "
        f"{event.group_id} through explicit `LeaveGroup` request{by}; client reason: {event.reason}"
    )


def _expired(event: MemberExpired) -> str:
    member, who = event.member, client_of(event.member)
    if event.pending:
        return (
            f"Pending member {member.member_id} in group {event.group_id} has been removed after session timeout "
            f"expiration: client {who} got this id {seconds(event.silent_ms)} ago and did not come back with it."
        )
    static = "" if member.group_instance_id is None else f" (groupInstanceId={member.group_instance_id})"
    why = f"was not heard for {seconds(event.silent_ms)} (its session timeout is {seconds(event.timeout_ms)})"
    if event.is_new:
        why = f"waited {seconds(event.silent_ms)} for its first generation, as long as a new member may"
    return (
        f"Member {member.member_id}{static} in group {event.group_id} has failed, removing it from the group: "
        f"client {who} {why}."
    )


def _evicted(event: MembersEvicted) -> str:
    names = listed([member_at(name) for name in event.members[:_MAX_LISTED]], len(event.members))
    if event.phase == "sync":
        return f"Group {event.group_id} removed members who haven't sent their sync requests: {names}"
    return f"Group {event.group_id} removed dynamic members who haven't joined: {names}"


def _fenced(event: MemberFenced) -> str:
    member, who = event.member, client_of(event.member)
    return (
        f"Request {event.operation} of member {member.member_id or '(new)'} (client {who}) for static member with "
        f"groupInstanceId={member.group_instance_id} of group {event.group_id} is fenced by existing "
        f"memberId={event.existing}."
    )


def _assigned(event: AssignmentReceived) -> str:
    line = (
        f"Assignment received from leader {event.member.member_id} for group {event.group_id} for generation "
        f"{event.generation_id}. The group has {event.members} members, {event.static_members} of which are static."
    )
    if not event.missing:
        return line
    missing = listed(event.missing[:_MAX_LISTED], len(event.missing))
    return f"{line} Setting empty assignments for members {missing}."


def _ended(event: TransactionEnded) -> str:
    verb = "Committed" if event.is_committed else "Aborted"
    return (
        f"{verb} transactional offset commits for producer id {event.producer_id} in group {event.group_id}: "
        f"{count(event.partitions, 'partition')}."
    )


def _skipped(event: OffsetsSkipped) -> str:
    offsets = [
        f"{one.topic}-{one.partition} {one.offset} ({one.committed} is committed)" for one in event.offsets
    ]
    return (
        f"Skipped the materialization of transactional offset commits for producer id {event.producer_id} in group "
        f"{event.group_id}, since later ones are committed: {listed(offsets, event.partitions)}."
    )


def _mixed(event: MixedCommits) -> str:
    kind, other = ("transactional", "plain") if event.is_transactional else ("plain", "transactional")
    return (
        f"Group {event.group_id} mixes plain and transactional offset commits: a {kind} one for {event.topic}-"
        f"{event.partition} came to a {other} one. Which of them counts depends on which was written later. Others "
        "of this group are not told."
    )


LINES: Final[Mapping[type[Event], tuple[int, Template] | None]] = {
    MemberIdRequired: (
        DEBUG,
        (
            "Dynamic member with unknown member id joins group {group_id} in {state} state. Created a new member "
            "id {member.member_id} and requesting the member to rejoin with this id."
        ),
    ),
    MemberJoined: (DEBUG, _joined),
    MemberRejoined: None,
    MemberToldToRejoin: None,
    JoinRefused: (INFO, refused),
    SyncRefused: (INFO, refused),
    HeartbeatRefused: (INFO, refused),
    CommitRefused: (INFO, refused),
    StaticMemberReplaced: (INFO, _replaced),
    RebalanceAvoided: (
        INFO,
        (
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not "
            "trigger a rebalance: groupInstanceId={member.group_instance_id}, member {member.member_id}, "
            "group {group_id}, generation {generation_id}"
        ),
    ),
    RebalanceStarted: (
        DEBUG,
        lambda event: (
            f"Preparing to rebalance group {event.group_id} in state {event.state} with old generation "
            f"{event.generation_id} (reason: {event.trigger.reason})."
        ),
    ),
    RebalanceWaits: (INFO, waits),
    RebalanceCompleted: (INFO, completed),
    RebalanceDelayed: (
        DEBUG,
        "New members came while the first rebalance of group {group_id} waited: it waits {delay_ms} ms more.",
    ),
    RebalanceStalled: (
        ERROR,
        (
            "Group {group_id} could not complete rebalance because no members rejoined: generation "
            "{generation_id}, {members} members."
        ),
    ),
    GroupStabilized: (
        DEBUG,
        (
            "Stabilized group {group_id} generation {generation_id} with {members} members (leader {leader_id}, "
            "protocol {protocol_name})."
        ),
    ),
    SyncReceived: None,
    AssignmentReceived: (DEBUG, _assigned),
    AssignmentApplied: None,
    AssignmentFetched: None,
    GroupEmptied: (DEBUG, "Group {group_id} with generation {generation_id} is now empty."),
    MemberLeft: (INFO, _left),
    MemberExpired: (INFO, _expired),
    MembersEvicted: (INFO, _evicted),
    LeaderReplaced: (
        INFO,
        (
            "Group leader [memberId: {old_leader_id}] failed to join before the rebalance timeout. Leader of "
            "group {group_id} is now {member.member_id}."
        ),
    ),
    MemberFenced: (INFO, _fenced),
    SubscriptionUnreadable: (
        WARNING,
        (
            "Failed to parse the consumer protocol {protocol_name} of group {group_id}: which topics it reads is "
            "not known."
        ),
    ),
    SimpleGroupCreated: (INFO, "Creating a simple consumer group {group_id} via manual offset commit."),
    OffsetsCommitted: None,
    OffsetsPending: None,
    TransactionEnded: (DEBUG, _ended),
    OffsetsSkipped: (INFO, _skipped),
    MixedCommits: (INFO, _mixed),
    OffsetsDeleted: (INFO, "Removed {partitions} offsets of group {group_id} ({reason})."),
    OffsetsExpired: (INFO, "Expired {partitions} offsets of group {group_id}."),
    GroupDeleted: (
        INFO,
        "The following groups were deleted: {group_id} ({reason}). A total of {offsets} offsets were removed.",
    ),
    GroupLoaded: (
        INFO,
        "Loaded {type} group {group_id} with {members} members (state {state}, generation {generation_id}).",
    ),
}
"""By the class of the event: level and text; None for what has no line."""


SILENT: Final = frozenset({OffsetsCommitted, OffsetsPending})
"""What happens too often to be looked at twice."""


def _template_of(event: Event) -> tuple[int, Template] | None:
    kind = type(event)
    return CONSUMER_LINES[kind] if kind in CONSUMER_LINES else LINES[kind]


def event_line(event: Event) -> tuple[int, str] | None:
    """Level and text of an event's line; None for one that has none."""
    found = _template_of(event)
    if found is None or _is_told_by_fencing(event):
        return None
    level, template = found
    said = _printable_event(event)
    if isinstance(template, str):
        return level, template.format_map(asdict(said))
    return level, template(said)


def _is_told_by_fencing(event: Event) -> bool:
    """Whether the line of a MemberFenced has said it already."""
    return isinstance(event, Refused) and event.error is ErrorCode.FENCED_INSTANCE_ID


def _printable_event(event: Event) -> Event:
    """A copy that is fit for a line: texts that cannot end it, short names of all but the member it is about."""
    values = {name: _printable(value, name) for name, value in asdict(event).items()}
    if event.member is not None:
        values["member"] = MemberName(*map(_printable, event.member))
    return type(event)(**values)


def _printable(value: Any, name: str = "") -> Any:
    """The same of a field `name`, or of a part of one."""
    if isinstance(value, MemberName):
        return printable_name(value)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return tuple([_printable(part) for part in value])
        return type(value)(*map(_printable, value, names))
    if isinstance(value, str) and not isinstance(value, Enum):
        return printable(value, _MAX_REASON if name == "reason" else MAX_PRINTED)
    return value


def log_event(partition: TopicPartition, event: Event, limit: LineLimit) -> None:
    """Writes the line of what happened in a group of one partition. What a client may cause again and again has a
    line only as often as `limit` admits."""
    found = _template_of(event)
    if found is None or not _GROUPS.isEnabledFor(found[0]):
        return
    times = _admit(event, limit)
    line = event_line(event) if times else None
    if line is not None:
        level, text = line
        again = f" ({times - 1} more like this since it was last told)" if times > 1 else ""
        _GROUPS.log(level, "[%s] %s%s", partition, text, again)


def _admit(event: Event, limit: LineLimit) -> int:
    if isinstance(event, Refused):
        kind: object = event.error
    elif isinstance(event, MemberFenced):
        kind = event.operation
    else:
        return 1
    return limit.admit(type(event).__name__, kind, event.group_id, event.member)


def log_expiry(partition: Partition[Any], key: Hashable, outcome: Outcome, duration_ns: int) -> None:
    """Writes the line of one look for expired offsets, where it found any. In: the timer that fired, and what came
    of it."""
    removed = sum(event.partitions for event in outcome.events if isinstance(event, OffsetsExpired))
    if removed:
        milliseconds = duration_ns // 1_000_000
        _GROUPS.info(
            "[%s] Removed %d expired offsets in %d milliseconds.", partition.name, removed, milliseconds
        )
