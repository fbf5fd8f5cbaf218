"""The ledger of consumer groups (KIP-848): the cause of each new epoch, and its entry.

An entry is open from EpochBumped until every member has its target assignment, or until the next epoch. The
ledger uses only events and does not read groups.

A cause has the name of the same cause in classic groups, if there is one. The core reports it in two events of
one turn, for example a fenced member and then the epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from coordinator.control.ledger.epoch_in_progress import EpochInProgress, TopicNameCache, build_epoch_entry
from coordinator.control.ledger.ledger_entry import Actor, EntryResult, LedgerEntry
from coordinator.control.ledger.rebalance_in_progress import EntryOpening
from coordinator.control.ledger.rebalance_triggers import LedgerClocks, TriggerBuffer
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.group import group_event_types
from coordinator.group.event_details import DepartureCause, MemberName, RebalanceCause
from coordinator.group.group_event_types import (
    ConsumerMemberFenced,
    ConsumerMemberJoined,
    ConsumerMemberLeft,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    FenceCause,
    GroupConverted,
    GroupEvent,
    MemberReconciled,
    TargetComputed,
    TopicChange,
)
from coordinator.group.group_types import GroupType


class EpochLedger:
    """The open epochs of all consumer groups. All methods belong to the event loop's thread."""

    def __init__(
        self,
        triggers: TriggerBuffer,
        topic_names: TopicNameCache,
        build_actor: Callable[[str, MemberName, Now], Actor],
        on_opened: Callable[[EpochInProgress], None],
        on_closed: Callable[[LedgerEntry], None],
        clocks: LedgerClocks,
    ) -> None:
        """Create the ledger of epochs.

        Args:
            triggers: Events that precede an epoch.
            topic_names: The names of topics by id.
            build_actor: Builds the actor of an entry.
            on_opened: Called with an opened entry.
            on_closed: Called with a closed entry.
            clocks: The times of groups and of the process.
        """
        self.open: dict[str, EpochInProgress] = {}
        self._triggers = triggers
        self._topic_names = topic_names
        self._build_actor = build_actor
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._clocks = clocks
        self._handlers: dict[type[group_event_types.GroupEvent], Callable[[Any, Now], None]] = {
            ConsumerMemberJoined: self._buffer_event,
            ConsumerMemberLeft: self._buffer_event,
            ConsumerMemberFenced: self._buffer_event,
            ConsumerMemberReplaced: self._on_member_replaced,
            TargetComputed: self._on_target_computed,
            MemberReconciled: self._on_member_reconciled,
            GroupConverted: self._on_group_converted,
            group_event_types.CommitRefused: self._on_commit_refused,
            group_event_types.GroupDeleted: self._on_group_deleted,
        }

    def on_event(self, partition: int, event: group_event_types.GroupEvent, number: int, now: Now) -> None:
        """Handle an event of a group of any type."""
        if type(event) is EpochBumped:
            self._on_epoch_bumped(event, partition, number, now)
            return
        handler = self._handlers.get(type(event))
        if handler is not None:
            entry = self.open.get(event.group_id)
            if entry is not None:
                entry.record_event(number)
            handler(event, now)

    def on_partition_unloaded(self, partition: int) -> list[EpochInProgress]:
        """End the open epochs of a released offsets partition without a result, and return them."""
        lost = [entry for entry in self.open.values() if entry.partition == partition]
        for entry in lost:
            del self.open[entry.group_id]
        return lost

    def snapshot_entry(self, entry: EpochInProgress, result: EntryResult) -> LedgerEntry:
        """Build the entry of an open epoch in its current state."""
        now_ms = self._clocks.group_now(entry.group_id).monotonic_ms
        return build_epoch_entry(entry, result, now_ms, self._clocks.real_ns(), self._topic_names)

    def close_entry(self, entry: EpochInProgress, result: EntryResult) -> None:
        """Close an open epoch, and pass its entry to `on_closed`."""
        if self.open.get(entry.group_id) is entry:
            del self.open[entry.group_id]
        self._on_closed(self.snapshot_entry(entry, result))

    def _on_epoch_bumped(self, event: EpochBumped, partition: int, number: int, now: Now) -> None:
        self._topic_names.refresh_names()
        before = self.open.get(event.group_id)
        if before is not None:
            before.record_event(number)
            self.close_entry(before, EntryResult.OVERTAKEN)
        actor = None if event.member is None else self._build_actor(event.group_id, event.member, now)
        earlier = self._triggers.take_events(event.group_id, now, self._clocks.turn())
        cause, reason = determine_epoch_cause(event, earlier), format_epoch_reason(event, earlier)
        opening = EntryOpening(partition, number, now, self._clocks.real_ns(), clock.wall_ms())
        entry = EpochInProgress(event, opening, cause, reason, actor, before)
        _record_members(entry, event, earlier)
        self.open[event.group_id] = entry
        self._on_opened(entry)
        if entry.is_complete:
            self.close_entry(entry, EntryResult.EMPTY)

    def _buffer_event(self, event: group_event_types.GroupEvent, now: Now) -> None:
        self._triggers.add(event, now, self._clocks.turn())

    def _on_member_replaced(self, event: ConsumerMemberReplaced, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            entry.replace_member(event.old_member_id, event.member)
        self._buffer_event(event, now)

    def _on_target_computed(self, event: TargetComputed, now: Now) -> None:
        self._topic_names.refresh_names()
        entry = self.open.get(event.group_id)
        if entry is not None and entry.group_epoch == event.generation_id:
            entry.set_target(event, now.monotonic_ms, self._clocks.real_ns())

    def _on_member_reconciled(self, event: MemberReconciled, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            entry.record_reconciliation(event, now.monotonic_ms)
            if entry.is_complete:
                self.close_entry(entry, EntryResult.STABLE)

    def _on_group_converted(self, event: GroupConverted, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None and event.to_type == GroupType.CLASSIC:
            self.close_entry(entry, EntryResult.OVERTAKEN)
        self._buffer_event(event, now)

    def _on_commit_refused(self, event: group_event_types.CommitRefused, now: Now) -> None:
        entry = self.open.get(event.group_id)
        progress = None if entry is None else entry.member_progress.get(event.member.member_id)
        if progress is not None:
            progress.count_refused_commit()

    def _on_group_deleted(self, event: group_event_types.GroupDeleted, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            self.close_entry(entry, EntryResult.FAILED)


def _record_members(
    entry: EpochInProgress, event: EpochBumped, earlier: Sequence[group_event_types.GroupEvent]
) -> None:
    """Record the members that joined and left."""
    causes: dict[str, str] = {}
    for one in earlier:
        if isinstance(one, ConsumerMemberJoined):
            entry.mark_new(one.member)
        elif isinstance(one, ConsumerMemberFenced):
            causes[one.member.member_id] = format_fence_cause(one.cause)
    for departed in event.gone:
        cause = causes.get(departed.member.member_id, DepartureCause.LEFT.value)
        entry.mark_gone(departed.member, cause, departed.before)


class EpochEntryCause(StrEnum):
    """The causes of entries of consumer groups that `RebalanceCause` lacks."""

    REBALANCE_TIMEOUT = "rebalance timeout"
    """A member did not revoke its partitions in time, or a classic member did not rejoin."""
    SUBSCRIPTION_CHANGED = "subscription changed"
    ASSIGNOR_CHANGED = "assignor changed"
    TOPICS_CHANGED = "topics changed"
    """Several kinds of topic changes at once, or an unknown one, for example just after a load of the group."""
    TOPIC_CREATED = "topic created"
    TOPIC_GREW = "topic grew"
    TOPIC_DELETED = "topic deleted"
    REGEX_RESOLVED = "regular expression resolved"
    UPGRADED = "group upgraded"
    DOWNGRADED = "group downgraded"


_CAUSES: Final[Mapping[EpochCause, str]] = {
    EpochCause.MEMBER_JOINED: RebalanceCause.MEMBER_JOINED,
    EpochCause.SUBSCRIPTION_CHANGED: EpochEntryCause.SUBSCRIPTION_CHANGED,
    EpochCause.ASSIGNOR_CHANGED: EpochEntryCause.ASSIGNOR_CHANGED,
    EpochCause.TOPICS_CHANGED: EpochEntryCause.TOPICS_CHANGED,
    EpochCause.REGEX_RESOLVED: EpochEntryCause.REGEX_RESOLVED,
    EpochCause.MEMBER_LEFT: RebalanceCause.MEMBER_LEFT,
    EpochCause.MEMBER_FENCED: RebalanceCause.SESSION_EXPIRED,
}
_FENCE_CAUSES: Final[Mapping[FenceCause, str]] = {
    FenceCause.SESSION_EXPIRED: RebalanceCause.SESSION_EXPIRED,
    FenceCause.ASKED: RebalanceCause.SESSION_EXPIRED,
    FenceCause.NOT_REVOKED: EpochEntryCause.REBALANCE_TIMEOUT,
    FenceCause.NOT_REJOINED: EpochEntryCause.REBALANCE_TIMEOUT,
    FenceCause.NOT_SYNCED: RebalanceCause.SYNC_EXPIRED,
}
_TOPIC_CAUSES: Final[Mapping[TopicChange, str]] = {
    TopicChange.CREATED: EpochEntryCause.TOPIC_CREATED,
    TopicChange.GREW: EpochEntryCause.TOPIC_GREW,
    TopicChange.DELETED: EpochEntryCause.TOPIC_DELETED,
}


def format_fence_cause(cause: FenceCause) -> str:
    """Return the cause for which a member was fenced."""
    return str(_FENCE_CAUSES[cause])


def determine_epoch_cause(event: EpochBumped, earlier: Sequence[GroupEvent]) -> str:
    """Return the cause of a new group epoch. `earlier` are the group's earlier events of the same turn."""
    for one in earlier:
        if isinstance(one, GroupConverted):
            return EpochEntryCause.UPGRADED
        if isinstance(one, ConsumerMemberFenced):
            return format_fence_cause(one.cause)
        if isinstance(one, ConsumerMemberReplaced):
            return RebalanceCause.STATIC_MEMBER_REPLACED
    if event.change is not None:
        return _TOPIC_CAUSES[event.change]
    return str(_CAUSES[event.cause])


def format_epoch_reason(event: EpochBumped, earlier: Sequence[GroupEvent]) -> str:
    """Return the cause of a new group epoch as text. `earlier` are the group's earlier events of the same turn."""
    for one in earlier:
        if isinstance(one, ConsumerMemberFenced):
            return f"{event.cause.value}: {one.cause.value}"
    return f"{event.cause.value}: {', '.join(event.topics)}" if event.topics else event.cause.value
