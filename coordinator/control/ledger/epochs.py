"""Why each consumer group (KIP-848) has another epoch: the ledger's half that hears of those.

An entry is open from EpochBumped until every member has its target, which is heard from the members' own steps, or
until the next epoch overtakes it. Nothing here looks at a group.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coordinator import clock
from coordinator.control.ledger.early import Early
from coordinator.control.ledger.entry import Actor, EntryResult, LedgerEntry
from coordinator.control.ledger.epoch_cause import epoch_cause, epoch_reason, fence_word
from coordinator.control.ledger.epoch_closing import made_epoch
from coordinator.control.ledger.open_epoch import OpenEpoch
from coordinator.control.ledger.topic_names import TopicNames
from coordinator.group import events
from coordinator.group.consumer.events import (
    ConsumerMemberFenced,
    ConsumerMemberJoined,
    ConsumerMemberLeft,
    ConsumerMemberReplaced,
    EpochBumped,
    GroupConverted,
    MemberReconciled,
    TargetComputed,
)
from coordinator.group.group_type import GroupType
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import DepartureCause
from coordinator.machine.outcome import Now


class Epochs:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        early: Early,
        names: TopicNames,
        actor: Callable[[str, MemberName, Now], Actor],
        opened: Callable[[OpenEpoch], None],
        keep: Callable[[LedgerEntry], None],
        now_of: Callable[[str], Now],
        real_ns: Callable[[], int],
        turn: Callable[[], int],
    ) -> None:
        """In: what is told before an epoch is; whose doing something is, as a ledger has it; who is told that an
        entry is open, and who takes one that is closed; the time of a group; the process's clock; the number of the
        turn whose events are being told."""
        self.open: dict[str, OpenEpoch] = {}
        self._early = early
        self._names = names
        self._actor = actor
        self._opened = opened
        self._keep = keep
        self._now_of = now_of
        self._real_ns = real_ns
        self._turn = turn
        self._on: dict[type[events.Event], Callable[[Any, Now], None]] = {
            ConsumerMemberJoined: self._before,
            ConsumerMemberLeft: self._before,
            ConsumerMemberFenced: self._before,
            ConsumerMemberReplaced: self._replaced,
            TargetComputed: self._targeted,
            MemberReconciled: self._reconciled,
            GroupConverted: self._converted,
            events.CommitRefused: self._commit_refused,
            events.GroupDeleted: self._deleted,
        }

    def observe(self, partition: int, event: events.Event, number: int, now: Now) -> None:
        """Something happened to a group, of any type."""
        entry = self.open.get(event.group_id)
        if type(event) is EpochBumped:
            self._bumped(event, partition, number, now)
            return
        handler = self._on.get(type(event))
        if handler is not None:
            if entry is not None:
                entry.number = number
            handler(event, now)

    def unloaded(self, partition: int) -> list[OpenEpoch]:
        """Those of an offsets partition that is no longer here, which come to nothing."""
        lost = [entry for entry in self.open.values() if entry.partition == partition]
        for entry in lost:
            del self.open[entry.group_id]
        return lost

    def as_it_is(self, entry: OpenEpoch, result: EntryResult) -> LedgerEntry:
        """An entry, now."""
        now_ms = self._now_of(entry.group_id).monotonic_ms
        return made_epoch(entry, result, now_ms, self._real_ns(), self._names)

    def closed(self, entry: OpenEpoch, result: EntryResult) -> None:
        """An entry is over, and is kept."""
        if self.open.get(entry.group_id) is entry:
            del self.open[entry.group_id]
        self._keep(self.as_it_is(entry, result))

    def _bumped(self, event: EpochBumped, partition: int, number: int, now: Now) -> None:
        self._names.look()
        before = self.open.get(event.group_id)
        if before is not None:
            before.number = number
            self.closed(before, EntryResult.OVERTAKEN)
        actor = None if event.member is None else self._actor(event.group_id, event.member, now)
        earlier = self._early.take(event.group_id, now, self._turn())
        cause, reason = epoch_cause(event, earlier), epoch_reason(event, earlier)
        real_ns, wall_ms = self._real_ns(), clock.wall_ms()
        entry = OpenEpoch(event, partition, number, now, real_ns, wall_ms, cause, reason, actor, before)
        _note_members(entry, event, earlier)
        self.open[event.group_id] = entry
        self._opened(entry)
        if entry.is_complete:
            self.closed(entry, EntryResult.EMPTY)

    def _before(self, event: events.Event, now: Now) -> None:
        self._early.add(event, now, self._turn())

    def _replaced(self, event: ConsumerMemberReplaced, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            entry.replaced(event.old_member_id, event.member)
        self._before(event, now)

    def _targeted(self, event: TargetComputed, now: Now) -> None:
        self._names.look()
        entry = self.open.get(event.group_id)
        if entry is not None and entry.group_epoch == event.generation_id:
            entry.targeted(event, now.monotonic_ms, self._real_ns())

    def _reconciled(self, event: MemberReconciled, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            entry.reconciled(event, now.monotonic_ms)
            if entry.is_complete:
                self.closed(entry, EntryResult.STABLE)

    def _converted(self, event: GroupConverted, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None and event.to_type == GroupType.CLASSIC:
            self.closed(entry, EntryResult.OVERTAKEN)
        self._before(event, now)

    def _commit_refused(self, event: events.CommitRefused, now: Now) -> None:
        entry = self.open.get(event.group_id)
        track = None if entry is None else entry.tracks.get(event.member.member_id)
        if track is not None:
            track.commits_refused += 1

    def _deleted(self, event: events.GroupDeleted, now: Now) -> None:
        entry = self.open.get(event.group_id)
        if entry is not None:
            self.closed(entry, EntryResult.FAILED)


def _note_members(entry: OpenEpoch, event: EpochBumped, earlier: Sequence[events.Event]) -> None:
    """Who came and who is gone."""
    causes: dict[str, str] = {}
    for one in earlier:
        if isinstance(one, ConsumerMemberJoined):
            entry.track(one.member).is_new = True
        elif isinstance(one, ConsumerMemberFenced):
            causes[one.member.member_id] = fence_word(one.cause)
    for departed in event.gone:
        cause = causes.get(departed.member.member_id, DepartureCause.LEFT.value)
        entry.gone(departed.member, cause, departed.before)
