"""Log lines for events of consumer groups (KIP-848), in Kafka's words where Kafka has the line.

Source: the log statements of Kafka's `GroupMetadataManager`.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.message_text import format_count, format_seconds
from coordinator.group.group_event_types import (
    ConsumerHeartbeatRefused,
    ConsumerMemberFenced,
    ConsumerMemberJoined,
    ConsumerMemberLeft,
    ConsumerMemberReplaced,
    EpochBumped,
    GroupConverted,
    GroupEvent,
    MemberReconciled,
    RegexesResolved,
    RegexesUnresolved,
    TargetComputed,
)
from coordinator.group.member_text import format_member_client

DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING


def _format_protocol(event: ConsumerMemberJoined | ConsumerMemberReplaced) -> str:
    return "classic" if event.uses_classic_protocol else "consumer"


def _format_joined(event: ConsumerMemberJoined) -> str:
    member, kind, static = event.member, "Member", ""
    if member.group_instance_id is not None:
        kind, static = "Static member", f" with instance id {member.group_instance_id}"
    return (
        f"[GroupId {event.group_id}] {kind} {member.member_id}{static} joins the consumer group using the "
        f"{_format_protocol(event)} protocol (client {format_member_client(member)})."
    )


def _format_replaced(event: ConsumerMemberReplaced) -> str:
    return (
        f"[GroupId {event.group_id}] Static member with instance id {event.member.group_instance_id} re-joins the "
        f"consumer group using the {_format_protocol(event)} protocol. Created a new member "
        f"{event.member.member_id} to "
        f"replace the existing member {event.old_member_id}."
    )


def _format_left(event: ConsumerMemberLeft) -> str:
    member, kind, static = event.member, "Member", ""
    if member.group_instance_id is not None:
        kind, static = "Static member", f" with instance id {member.group_instance_id}"
    how = "temporarily left" if event.returns else "left"
    return f"[GroupId {event.group_id}] {kind} {member.member_id}{static} {how} the consumer group."


def _format_fenced(event: ConsumerMemberFenced) -> str:
    return (
        f"[GroupId {event.group_id}] Member {event.member.member_id} fenced from the group because "
        f"{event.cause.value}: client {format_member_client(event.member)} sent its last request "
        f"{format_seconds(event.silent_ms)} ago (its limit is {format_seconds(event.timeout_ms)}); it gives up "
        f"{format_count(event.partitions, 'partition')}."
    )


def _format_refused(event: ConsumerHeartbeatRefused) -> str:
    return (
        f"[GroupId {event.group_id}] ConsumerGroupHeartbeat of member {event.member.member_id or '(new)'} (client "
        f"{format_member_client(event.member)}) at epoch {event.generation_id} is refused: {event.error.name}"
        f"{': ' if event.reason else ''}{event.reason}"
    )


CONSUMER_GROUP_LINES: Final[Mapping[type[GroupEvent], tuple[int, str | Callable[[Any], str]]]] = {
    ConsumerMemberJoined: (INFO, _format_joined),
    ConsumerMemberReplaced: (INFO, _format_replaced),
    ConsumerMemberLeft: (INFO, _format_left),
    ConsumerMemberFenced: (INFO, _format_fenced),
    EpochBumped: (
        INFO,
        "[GroupId {group_id}] Bumped group epoch to {generation_id} with metadata hash {metadata_hash}: {cause}.",
    ),
    TargetComputed: (
        INFO,
        (
            "[GroupId {group_id}] Computed a new target assignment for epoch {generation_id} with '{assignor}' "
            "assignor: {members} members, {partitions} partitions, {moved} of them moved."
        ),
    ),
    MemberReconciled: (
        DEBUG,
        (
            "[GroupId {group_id}] Member {member.member_id} new assignment state: epoch={member_epoch}, "
            "state={state}, {assigned} partitions assigned, {pending} to revoke, {missing} not released by others."
        ),
    ),
    RegexesResolved: (
        INFO,
        (
            "[GroupId {group_id}] Scanned {topics} topics to refresh {regexes} regular expressions, {changed} of "
            "which match other topics than before."
        ),
    ),
    RegexesUnresolved: (
        WARNING,
        "[GroupId {group_id}] Couldn't update {regexes} regular expressions due to: {reason}",
    ),
    ConsumerHeartbeatRefused: (INFO, _format_refused),
    GroupConverted: (
        INFO,
        "[GroupId {group_id}] Converted the {from_type} group with {members} members to a {to_type} group.",
    ),
}
"""Level and text by class of the event."""
