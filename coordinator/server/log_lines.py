"""What happens in groups and topics, as lines of a log: Kafka's words, so that what people search for is there.

One line an event, with group, member, generation and reason. What every client does all the time (heartbeats,
commits) has no line. Source: the log statements of Kafka's `GroupMetadataManager` and `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from coordinator.engine.partition import Partition
from coordinator.group.events import Event, OffsetsCommitted, OffsetsExpired
from coordinator.machine.outcome import Outcome
from coordinator.net.peer import MAX_PRINTED, printable
from coordinator.topics.answer import (
    ConfigChanged,
    DirectoryFailed,
    PartitionFailed,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)

_GROUPS: Final = logging.getLogger("GroupCoordinator")
_TOPICS: Final = logging.getLogger("TopicManager")

_MAX_REASON: Final = 1000  # it holds names, and what a client says in 255 characters
_MAX_LISTED: Final = 20

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR
Values = Mapping[str, Any]
Template = str | Callable[[Values], str]


def _joined(values: Values) -> str:
    if values["group_instance_id"] is not None:
        return (
            "Static member with groupInstanceId={group_instance_id} and unknown member id joins group {group_id} "
            "in {state} state. Created a new member id {member_id} (client {client_id} at {client_host})."
        )
    if values["pending"]:
        return (
            "Pending dynamic member with id {member_id} joins group {group_id} in {state} state "
            "(client {client_id} at {client_host}). Adding to the group now."
        )
    return (
        "Dynamic member with unknown member id joins group {group_id} in {state} state. Created a new member "
        "{member_id} (client {client_id} at {client_host}) and added it to the group."
    )


def _left(values: Values) -> str:
    kind = "Pending member" if values["pending"] else "Member"
    static = " groupInstanceId={group_instance_id}" if values["group_instance_id"] is not None else ""
    return (
        kind
        + " {member_id}"
        + static
        + " has left group {group_id} through explicit `LeaveGroup` request; client reason: {reason}"
    )


def _expired(values: Values) -> str:
    if values["pending"]:
        return "Pending member {member_id} in group {group_id} has been removed after session timeout expiration."
    static = " (groupInstanceId={group_instance_id})" if values["group_instance_id"] is not None else ""
    return "Member {member_id}" + static + " in group {group_id} has failed, removing it from the group."


def _evicted(values: Values) -> str:
    if values["phase"] == "sync":
        return "Group {group_id} removed members who haven't sent their sync requests: {member_ids}"
    return "Group {group_id} removed dynamic members who haven't joined: {member_ids}"


def _assigned(values: Values) -> str:
    line = (
        "Assignment received from leader {leader_id} for group {group_id} for generation {generation_id}. "
        "The group has {members} members, {static_members} of which are static."
    )
    return line + " Setting empty assignments for members {missing}." if values["missing"] else line


LINES: Final[Mapping[str, tuple[int, Template] | None]] = {
    "MemberIdRequired": (
        INFO,
        (
            "Dynamic member with unknown member id joins group {group_id} in {state} state. Created a new member "
            "id {member_id} and requesting the member to rejoin with this id."
        ),
    ),
    "MemberJoined": (INFO, _joined),
    "JoinRefused": (INFO, "Member {member_id} was refused by group {group_id} in {state} state: {error}"),
    "StaticMemberReplaced": (
        INFO,
        (
            "Static member with groupInstanceId={group_instance_id} and unknown member id joins group {group_id} "
            "in {state} state. Replacing previously mapped member {old_member_id} with {member_id}."
        ),
    ),
    "RebalanceAvoided": (
        INFO,
        (
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not "
            "trigger a rebalance: groupInstanceId={group_instance_id}, member {member_id}, group {group_id}, "
            "generation {generation_id}"
        ),
    ),
    "RebalanceStarted": (
        INFO,
        (
            "Preparing to rebalance group {group_id} in state {state} with old generation {generation_id} "
            "(reason: {reason})."
        ),
    ),
    "RebalanceDelayed": (
        INFO,
        "New members came while the first rebalance of group {group_id} waited: it waits {delay_ms} ms more.",
    ),
    "RebalanceStalled": (
        ERROR,
        (
            "Group {group_id} could not complete rebalance because no members rejoined: generation "
            "{generation_id}, {members} members."
        ),
    ),
    "GroupStabilized": (
        INFO,
        (
            "Stabilized group {group_id} generation {generation_id} with {members} members (leader {leader_id}, "
            "protocol {protocol_name})."
        ),
    ),
    "AssignmentReceived": (INFO, _assigned),
    "AssignmentApplied": None,
    "GroupEmptied": (INFO, "Group {group_id} with generation {generation_id} is now empty."),
    "MemberLeft": (INFO, _left),
    "MemberExpired": (INFO, _expired),
    "MembersEvicted": (INFO, _evicted),
    "LeaderReplaced": (
        INFO,
        (
            "Group leader [memberId: {old_leader_id}] failed to join before the rebalance timeout. Leader of "
            "group {group_id} is now {leader_id}."
        ),
    ),
    "MemberFenced": (
        INFO,
        (
            "Request {operation} of member {member_id} for static member with groupInstanceId={group_instance_id} "
            "of group {group_id} is fenced by existing memberId={existing_member_id}."
        ),
    ),
    "SubscriptionUnreadable": (
        WARNING,
        (
            "Failed to parse the consumer protocol {protocol_name} of group {group_id}: which topics it reads is "
            "not known."
        ),
    ),
    "SimpleGroupCreated": (INFO, "Creating a simple consumer group {group_id} via manual offset commit."),
    "OffsetsCommitted": None,
    "CommitRefused": (
        INFO,
        (
            "Refused to commit {partitions} offsets of group {group_id} in state {state} for member {member_id} "
            "with generation {generation_id}: {error}"
        ),
    ),
    "OffsetsDeleted": (INFO, "Removed {partitions} offsets of group {group_id} ({reason})."),
    "OffsetsExpired": (INFO, "Expired {partitions} offsets of group {group_id}."),
    "GroupDeleted": (
        INFO,
        "The following groups were deleted: {group_id} ({reason}). A total of {offsets} offsets were removed.",
    ),
    "GroupLoaded": (
        INFO,
        "Loaded classic group {group_id} with {members} members (state {state}, generation {generation_id}).",
    ),
}
"""By the name of the event's class: level and text; None for what has no line."""


SILENT: Final = frozenset({OffsetsCommitted})
"""What happens too often to be looked at twice."""


def event_line(event: Event) -> tuple[int, str] | None:
    """Level and text of an event's line; None for one that has none."""
    name = type(event).__name__
    found = LINES.get(name, (INFO, _anything))
    if found is None:
        return None
    values = {entry.name: _text(getattr(event, entry.name), entry.name) for entry in fields(event)}
    level, template = found
    text = template if isinstance(template, str) else template({**values, "event": name})
    return level, text.format_map(values)


def _anything(values: Values) -> str:
    return str(values["event"]) + ": " + ", ".join(f"{name} {{{name}}}" for name in values if name != "event")


def _text(value: Any, name: str) -> Any:
    """A value as a line shows it: text of clients on one line, errors by name, lists without brackets."""
    if isinstance(value, str):
        return printable(str(value), _MAX_REASON if name == "reason" else MAX_PRINTED)
    if isinstance(value, tuple):
        listed = ", ".join(printable(str(part)) for part in value[:_MAX_LISTED])
        return listed if len(value) <= _MAX_LISTED else f"{listed} and {len(value) - _MAX_LISTED} more"
    word = getattr(value, "name", None)
    return word if isinstance(word, str) else value


def log_event(partition: Partition[Any], event: Event) -> None:
    """Writes the line of what happened in a group of one partition."""
    line = event_line(event)
    if line is not None:
        level, text = line
        _GROUPS.log(level, "[%s] %s", partition.name, text)


def log_expiry(partition: Partition[Any], key: Hashable, outcome: Outcome, duration_ns: int) -> None:
    """Writes the line of one look for expired offsets, where it found any. In: the timer that fired, and what came
    of it."""
    removed = sum(event.partitions for event in outcome.events if isinstance(event, OffsetsExpired))
    if removed:
        milliseconds = duration_ns // 1_000_000
        _GROUPS.info(
            "[%s] Removed %d expired offsets in %d milliseconds.", partition.name, removed, milliseconds
        )


def log_changes(changes: Iterable[TopicChange]) -> None:
    """Writes the lines of what became of topics."""
    for change in changes:
        match change:
            case TopicCreated(name, _, partitions, automatic):
                how = " automatically" if automatic else ""
                _TOPICS.info("Created topic %s%s with %d partitions", name, how, partitions)
            case TopicDeleted(name, _):
                _TOPICS.info("Deleted topic %s", name)
            case PartitionsAdded(name, _, partitions):
                _TOPICS.info("Topic %s has %d partitions now", name, partitions)
            case ConfigChanged(name, configs):
                told = ", ".join(f"{key}={printable(value)}" for key, value in configs) or "none"
                _TOPICS.info("Topic %s has these configs now: %s", name, told)
            case PartitionFailed(name, partition, reason):
                _TOPICS.error("Partition %s-%d failed: %s", name, partition, printable(reason))
            case DirectoryFailed(path, reason):
                _TOPICS.warning("Unable to describe replica dirs for %s: %s", path, printable(reason))
