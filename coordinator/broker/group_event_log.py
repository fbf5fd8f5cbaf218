"""The bus of group events: counts them, writes their log lines, and passes them to subscribers by rank.

Each event has one line. At INFO a rebalance has a line for the member event that caused it, if any, lines about
awaited members when it takes ten seconds or more, and a summary. Its steps follow at DEBUG, in Kafka's words so
that users can search for them. Heartbeats and commits have no line, because every client sends them all the time.
Source: the log statements of Kafka's `GroupMetadataManager` and `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any, Final

from msgspec.structs import asdict

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.consumer_group_log_lines import CONSUMER_GROUP_LINES
from coordinator.broker.group_event_text import format_completed, format_refusal, format_waits
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.interceptors import RankedList
from coordinator.core.message_text import MAX_PRINTED, format_count, format_list, format_seconds, printable
from coordinator.core.outcome import Now, Outcome
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.group.event_details import MemberName
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
    RequestRefused,
    SimpleGroupCreated,
    StaticMemberReplaced,
    SubscriptionUnreadable,
    SyncReceived,
    SyncRefused,
    TransactionEnded,
)
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.member_text import (
    format_client,
    format_member_address,
    format_member_client,
    printable_name,
)
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("GroupCoordinator")

_MAX_REASON: Final = 1000  # room for names, and for the reason of a client with 255 characters
_MAX_LISTED: Final = 20
Template = str | Callable[[Any], str]
"""The text with names of fields in braces, or a function that formats an event with printable strings."""
UNLOGGED_EVENTS: Final = frozenset({OffsetsCommitted, OffsetsPending})
"""Events that are too frequent for a line."""
EventListener = Callable[[int, GroupEvent, int, Now], None]
"""Takes the number of an offsets partition, an event of one of its groups, the event's number and group time."""


class EventRank(IntEnum):
    """The order in which subscribers get an event."""

    BUFFER = 1
    """Keeps events until their subscribers are created."""
    REMOVALS = 2
    """Remembers removed groups. All later ranks use that."""
    CLOCK = 3
    LEDGER = 4
    """Closes the rebalances of removed groups, before the metrics forget the group."""
    STREAM = 5
    WAITS = 6
    ORACLES = 7
    METRICS = 8
    COMMANDS = 9
    """Commands in progress, which report the events that they cause."""
    STAND_INS = 10
    FAULTS = 11
    """Act on events after all other subscribers have got them."""


class GroupEventBus:
    """Passes the events of a server's groups to subscribers, in the order of their ranks.

    The failure of one subscriber does not affect the others. Commits are too frequent for most subscribers, and are
    passed to `subscribe_to_commits` only.
    """

    def __init__(self, metrics: BrokerMetrics, line_limit: LogLineLimit) -> None:
        self.first_number = 0
        """The number of the first event of the current turn."""
        self._ranked: RankedList[EventListener] = RankedList()
        self.subscribers: tuple[EventListener, ...] = ()
        """The subscribers in their order. Each change replaces the tuple, also during an event."""
        self._commit_subscribers: tuple[EventListener, ...] = ()
        self._group_time: GroupTimeSource | None = None
        self._metrics = metrics
        self._line_limit = line_limit

    def subscribe(self, rank: int, on_event: EventListener) -> None:
        """Pass each event to `on_event`, except commits. Within a rank, earlier subscribers come first.

        Args:
            rank: Place among the subscribers, usually an `EventRank`.
            on_event: Takes the event. It must not be subscribed yet.
        """
        self._ranked.add(rank, on_event)
        self.subscribers = tuple(self._ranked)

    def unsubscribe(self, on_event: EventListener) -> None:
        """Remove a subscriber. Raises ValueError if it is not subscribed."""
        self._ranked.remove(on_event)
        self.subscribers = tuple(self._ranked)

    def subscribe_to_commits(self, on_event: EventListener) -> None:
        """Pass the events of commits to `on_event`, too."""
        self._commit_subscribers += (on_event,)

    def unsubscribe_from_commits(self, on_event: EventListener) -> None:
        """Stop passing the events of commits to `on_event`."""
        self._commit_subscribers = tuple(one for one in self._commit_subscribers if one != on_event)

    @property
    def has_group_time(self) -> bool:
        """Whether a group has a clock of its own."""
        return self._group_time is not None

    def use_group_time(self, group_time: GroupTimeSource | None) -> None:
        """Pass events with the time of their group.

        Args:
            group_time: Returns the time of a group; None if no group has a clock of its own.
        """
        self._group_time = group_time

    def observe(
        self, partition: CoordinatorPartition[Any], events: Sequence[GroupEvent], first: int, now: Now
    ) -> None:
        """Publish the events of a partition. This is an `Observer` of the engine."""
        if partition.name.topic != CONSUMER_OFFSETS:
            return
        self.first_number = first
        for number, event in enumerate(events, first):
            self._metrics.count_event(event)
            if type(event) not in UNLOGGED_EVENTS:
                log_event(partition.name, event, self._line_limit)
                self._pass_event(self.subscribers, partition.number, event, number, now)
            elif self._commit_subscribers:
                self._pass_event(self._commit_subscribers, partition.number, event, number, now)

    def publish(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        """Pass an event to the subscribers.

        Args:
            partition: Number of the offsets partition.
            event: The event.
            number: Number of the event.
            now: Time of the engine.
        """
        self._pass_event(self.subscribers, partition, event, number, now)

    def _pass_event(
        self, subscribers: tuple[EventListener, ...], partition: int, event: GroupEvent, number: int, now: Now
    ) -> None:
        group_now = now if self._group_time is None else self._group_time(event.group_id, now)
        for listener in subscribers:
            try:
                listener(partition, event, number, group_now)
            except Exception as problem:  # noqa: BLE001 - a failing listener must not affect the group
                name = getattr(listener, "__qualname__", repr(listener))
                group_id = printable(event.group_id)
                _LOG.error("%s failed to handle an event of group %s", name, group_id, exc_info=problem)


def log_event(partition: TopicPartition, event: GroupEvent, limit: LogLineLimit) -> None:
    """Write the line of a group event. `limit` bounds the lines that a client could cause again and again."""
    found = _find_template(event)
    if found is None or not _LOG.isEnabledFor(found[0]):
        return
    times = _admit_event(event, limit)
    line = format_event(event) if times else None
    if line is not None:
        level, text = line
        again = f" ({times - 1} similar lines left out since the last one)" if times > 1 else ""
        _LOG.log(level, "[%s] %s%s", partition, text, again)


def _admit_event(event: GroupEvent, limit: LogLineLimit) -> int:
    if isinstance(event, RequestRefused):
        kind: object = event.error
    elif isinstance(event, MemberFenced):
        kind = event.operation
    else:
        return 1
    return limit.admit(type(event), kind, event.group_id, event.member)


def log_expiry(
    partition: CoordinatorPartition[Any], key: Hashable, outcome: Outcome, duration_ns: int
) -> None:
    """Write the line of one check for expired offsets, if it removed any.

    Args:
        partition: The offsets partition.
        key: Key of the timer of the check.
        outcome: Outcome of the check.
        duration_ns: Duration of the check in nanoseconds.
    """
    removed = sum(event.partitions for event in outcome.events if isinstance(event, OffsetsExpired))
    if removed:
        milliseconds = duration_ns // 1_000_000
        _LOG.info(
            "[%s] Removed %d expired offsets in %d milliseconds.", partition.name, removed, milliseconds
        )


def format_event(event: GroupEvent) -> tuple[int, str] | None:
    """Return level and text of an event's line; None if it has none."""
    found = _find_template(event)
    if found is None or _is_logged_as_fencing(event):
        return None
    level, template = found
    escaped = _escape_event(event)
    if isinstance(template, str):
        return level, template.format_map(asdict(escaped))
    return level, template(escaped)


def _find_template(event: GroupEvent) -> tuple[int, Template] | None:
    kind = type(event)
    return CONSUMER_GROUP_LINES[kind] if kind in CONSUMER_GROUP_LINES else GROUP_LINES[kind]


def _is_logged_as_fencing(event: GroupEvent) -> bool:
    """Return whether a MemberFenced has already logged the same."""
    return isinstance(event, RequestRefused) and event.error is ErrorCode.FENCED_INSTANCE_ID


def _escape_event(event: GroupEvent) -> GroupEvent:
    """Return a copy for a log line: printable strings, and short names of all members but the subject."""
    values = {name: _escape_value(value, name) for name, value in asdict(event).items()}
    if event.member is not None:
        values["member"] = MemberName(*map(_escape_value, event.member))
    return type(event)(**values)


def _escape_value(value: Any, name: str = "") -> Any:
    """Return a copy of the value of field `name` for a log line."""
    if isinstance(value, MemberName):
        return printable_name(value)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return tuple([_escape_value(part) for part in value])
        return type(value)(*map(_escape_value, value, names))
    if isinstance(value, str) and not isinstance(value, Enum):
        return printable(value, _MAX_REASON if name == "reason" else MAX_PRINTED)
    return value


DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


def _format_joined(event: MemberJoined) -> str:
    member, who = event.member, format_member_client(event.member)
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


def _format_replaced(event: StaticMemberReplaced) -> str:
    member = event.member
    return (
        f"Static member with groupInstanceId={member.group_instance_id} and unknown member id joins group "
        f"{event.group_id} in {event.state} state. Replacing previously mapped member {event.old_member_id} with "
        f"{member.member_id} (client {format_member_client(member)})."
    )


def _format_left(event: MemberLeft) -> str:
    member, sender = event.member, (event.sender_id, event.sender_host)
    kind = "Pending member" if event.pending else "Member"
    static = "" if member.group_instance_id is None else f" groupInstanceId={member.group_instance_id}"
    by = "" if sender == (member.client_id, member.client_host) else f" of {format_client(*sender)}"
    return (
        f"{kind} {member.member_id}{static} (client {format_member_client(member)}) has left group "
        f"{event.group_id} through explicit `LeaveGroup` request{by}; client reason: {event.reason}"
    )


def _format_expired(event: MemberExpired) -> str:
    member, who = event.member, format_member_client(event.member)
    if event.pending:
        return (
            f"Pending member {member.member_id} in group {event.group_id} has been removed after session timeout "
            f"expiration: client {who} got this id {format_seconds(event.silent_ms)} ago and did not come "
            f"back with it."
        )
    static = "" if member.group_instance_id is None else f" (groupInstanceId={member.group_instance_id})"
    why = (
        f"was not heard for {format_seconds(event.silent_ms)} (its session timeout is "
        f"{format_seconds(event.timeout_ms)})"
    )
    if event.is_new:
        why = (
            f"waited {format_seconds(event.silent_ms)} for its first generation, as long as a new member may"
        )
    return (
        f"Member {member.member_id}{static} in group {event.group_id} has failed, removing it from the group: "
        f"client {who} {why}."
    )


def _format_evicted(event: MembersEvicted) -> str:
    names = format_list(
        [format_member_address(name) for name in event.members[:_MAX_LISTED]], len(event.members)
    )
    if event.phase == "sync":
        return f"Group {event.group_id} removed members who haven't sent their sync requests: {names}"
    return f"Group {event.group_id} removed dynamic members who haven't joined: {names}"


def _format_fenced(event: MemberFenced) -> str:
    member, who = event.member, format_member_client(event.member)
    return (
        f"Request {event.operation} of member {member.member_id or '(new)'} (client {who}) for static member with "
        f"groupInstanceId={member.group_instance_id} of group {event.group_id} is fenced by existing "
        f"memberId={event.existing}."
    )


def _format_assigned(event: AssignmentReceived) -> str:
    line = (
        f"Assignment received from leader {event.member.member_id} for group {event.group_id} for generation "
        f"{event.generation_id}. The group has {event.members} members, {event.static_members} of which are static."
    )
    if not event.missing:
        return line
    missing = format_list(event.missing[:_MAX_LISTED], len(event.missing))
    return f"{line} Setting empty assignments for members {missing}."


def _format_transaction_ended(event: TransactionEnded) -> str:
    verb = "Committed" if event.is_committed else "Aborted"
    return (
        f"{verb} transactional offset commits for producer id {event.producer_id} in group {event.group_id}: "
        f"{format_count(event.partitions, 'partition')}."
    )


def _format_skipped(event: OffsetsSkipped) -> str:
    offsets = [
        f"{one.topic}-{one.partition} {one.offset} ({one.committed} is committed)" for one in event.offsets
    ]
    return (
        f"Skipped the materialization of transactional offset commits for producer id {event.producer_id} in group "
        f"{event.group_id}, since later ones are committed: {format_list(offsets, event.partitions)}."
    )


def _format_mixed_commits(event: MixedCommits) -> str:
    kind, other = ("transactional", "plain") if event.is_transactional else ("plain", "transactional")
    return (
        f"Group {event.group_id} mixes plain and transactional offset commits: a {kind} one for "
        f"{event.topic}-{event.partition} followed a {other} one. The commit that was written later counts. "
        "groupd reports this once for each group."
    )


GROUP_LINES: Final[Mapping[type[GroupEvent], tuple[int, Template] | None]] = {
    MemberIdRequired: (
        DEBUG,
        (
            "Dynamic member with unknown member id joins group {group_id} in {state} state. Created a new member "
            "id {member.member_id} and requesting the member to rejoin with this id."
        ),
    ),
    MemberJoined: (DEBUG, _format_joined),
    MemberRejoined: None,
    MemberToldToRejoin: None,
    JoinRefused: (INFO, format_refusal),
    SyncRefused: (INFO, format_refusal),
    HeartbeatRefused: (INFO, format_refusal),
    CommitRefused: (INFO, format_refusal),
    StaticMemberReplaced: (INFO, _format_replaced),
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
    RebalanceWaits: (INFO, format_waits),
    RebalanceCompleted: (INFO, format_completed),
    RebalanceDelayed: (
        DEBUG,
        "New members joined during the initial delay of group {group_id}: it waits {delay_ms} ms more.",
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
    AssignmentReceived: (DEBUG, _format_assigned),
    AssignmentApplied: None,
    AssignmentFetched: None,
    GroupEmptied: (DEBUG, "Group {group_id} with generation {generation_id} is now empty."),
    MemberLeft: (INFO, _format_left),
    MemberExpired: (INFO, _format_expired),
    MembersEvicted: (INFO, _format_evicted),
    LeaderReplaced: (
        INFO,
        (
            "Group leader [memberId: {old_leader_id}] failed to join before the rebalance timeout. Leader of "
            "group {group_id} is now {member.member_id}."
        ),
    ),
    MemberFenced: (INFO, _format_fenced),
    SubscriptionUnreadable: (
        WARNING,
        (
            "Failed to parse the consumer protocol {protocol_name} of group {group_id}: its topics are "
            "unknown."
        ),
    ),
    SimpleGroupCreated: (INFO, "Creating a simple consumer group {group_id} via manual offset commit."),
    OffsetsCommitted: None,
    OffsetsPending: None,
    TransactionEnded: (DEBUG, _format_transaction_ended),
    OffsetsSkipped: (INFO, _format_skipped),
    MixedCommits: (INFO, _format_mixed_commits),
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
"""Level and text by class of the event; None for no line."""
