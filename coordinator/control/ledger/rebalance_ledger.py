"""The cause of each rebalance: one entry for each rebalance, built from events. It is always on.

It listens to events of groups, which do not include commits. An entry is open from RebalanceStarted until the
group is Empty, or Stable with all SyncGroups received. The next rebalance and an unload of the groups close
it too. `epoch_ledger.py` has the entries of consumer groups.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final, Protocol

from msgspec import json, structs

from coordinator.control.ledger.entry_builder import (
    CountPartitions,
    build_entry,
    compute_real_times,
    determine_result,
    format_name,
    format_optional_name,
    missed_generation,
)
from coordinator.control.ledger.epoch_in_progress import EpochInProgress, TopicNameCache
from coordinator.control.ledger.epoch_ledger import EpochEntryCause, EpochLedger
from coordinator.control.ledger.ledger_entry import Actor, EntryResult, LedgerEntry
from coordinator.control.ledger.ledger_storage import LedgerFile, LedgerStore, StoredEntry
from coordinator.control.ledger.rebalance_in_progress import (
    MAX_RELATED_ACTIONS,
    EntryOpening,
    RebalanceInProgress,
)
from coordinator.control.ledger.rebalance_triggers import (
    LedgerClocks,
    RecentActions,
    TriggerBuffer,
    build_related_action,
)
from coordinator.control.operator_actions import ActionLog, OperatorAction
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.group import group_event_types
from coordinator.group.event_details import DepartureCause, MemberName
from coordinator.group.group_event_types import GroupConverted
from coordinator.group.group_types import GroupType
from coordinator.group.topics_image import NO_TOPICS, TopicsImage

HEARTBEAT: Final = "heartbeat"
MAX_MISSED: Final = 20


class ConnectionTimes(Protocol):
    """Times of connections by their numbers, on the process's clock."""

    def silent_ms(self, connection_id: int) -> int | None:
        """Return the time since a connection last received or sent bytes; None if unknown."""

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        """Return the time since a connection closed; None if it is open or unknown."""


class RebalanceLedger:
    """The ledger of a server. All methods belong to the event loop's thread."""

    def __init__(
        self,
        actions: ActionLog,
        connections: ConnectionTimes,
        count_partitions: CountPartitions,
        clocks: LedgerClocks,
        most_bytes: int,
        file: LedgerFile | None = None,
        topics: Callable[[], TopicsImage] = lambda: NO_TOPICS,
    ) -> None:
        """Create the ledger.

        Args:
            actions: The actions of operators.
            connections: What is known of connections.
            count_partitions: Returns the number of partitions of a topic.
            clocks: The times of groups and of the process.
            most_bytes: The maximum size of completed entries, bytes.
            file: The file of entries, if any.
            topics: Returns the current topics.
        """
        self.listeners: list[Callable[[LedgerEntry], None]] = []
        """Called with each entry that the ledger has just closed."""
        self.last_seq = -1
        """The number of the last event. Entries that are closed later have a higher number."""
        self.store = LedgerStore(most_bytes)
        self.file = file
        self._connections = connections
        self._count_partitions = count_partitions
        self._clocks = clocks
        self._open: dict[str, RebalanceInProgress] = {}
        self._unloaded: list[RebalanceInProgress | EpochInProgress] = []
        """The open entries of unloaded groups. The next event closes them."""
        self._triggers = TriggerBuffer()
        self._missed: dict[str, dict[str, list[int]]] = {}
        """The generations that current members missed since they were in a Stable generation."""
        self._actions = RecentActions()
        self._epochs = EpochLedger(
            self._triggers,
            TopicNameCache(topics),
            self._build_actor,
            lambda entry: self._actions.add_recent_to_entry(entry, clocks.real_ns()),
            self._store_entry,
            clocks,
        )
        self._encode = json.Encoder().encode
        self._decode = json.Decoder(LedgerEntry).decode
        self._handlers: dict[type[group_event_types.GroupEvent], Callable[[Any, Now], None]] = {
            group_event_types.MemberJoined: self._on_member_joined,
            group_event_types.MemberRejoined: self._on_member_joined,
            group_event_types.StaticMemberReplaced: self._on_member_replaced,
            group_event_types.MemberIdRequired: self._on_member_id_given,
            group_event_types.MemberToldToRejoin: self._on_told_to_rejoin,
            group_event_types.MemberLeft: self._on_member_gone,
            group_event_types.MemberExpired: self._on_member_gone,
            group_event_types.MembersEvicted: self._on_members_evicted,
            group_event_types.GroupStabilized: self._on_group_stabilized,
            group_event_types.GroupEmptied: self._on_group_stabilized,
            group_event_types.SyncReceived: self._on_sync_received,
            group_event_types.RebalanceCompleted: self._on_rebalance_completed,
            group_event_types.AssignmentFetched: self._on_assignment_fetched,
            group_event_types.CommitRefused: self._on_commit_refused,
            group_event_types.GroupDeleted: self._on_group_deleted,
            GroupConverted: self._on_group_converted,
        }
        actions.listeners.append(self._on_action)

    # Queries

    def list_entries(
        self, group_id: str | None = None, after: int = -1, limit: int = 100, *, last: int | None = None
    ) -> list[LedgerEntry]:
        """Return the entries of a group, or of all groups, with a higher number than `after`: oldest first, open
        ones at the end. `limit` is the maximum number of entries. `last` selects the newest entries instead."""
        closed = self._list_closed(group_id, after)
        open_entries = [entry for entry in self._list_open(group_id) if entry.last_seq > after]
        if last is not None:
            first_open = max(0, len(open_entries) - last)
            closed = closed[max(0, len(closed) - max(0, last - len(open_entries))) :]
            open_entries, limit = open_entries[first_open:], last
        found = [self._decode(one.data) for one in closed[:limit]]
        return found + [self._snapshot_entry(entry) for entry in open_entries[: limit - len(found)]]

    def list_lines(self, group_id: str | None = None, after: int = -1) -> Iterable[bytes]:
        """Return the closed entries as JSON lines, oldest first."""
        return (one.data + b"\n" for one in self._list_closed(group_id, after))

    def has_entries(self, group_id: str) -> bool:
        """Return whether the ledger has entries of a group."""
        return bool(self._list_closed(group_id, -1)) or any(True for _ in self._list_open(group_id))

    def rebalancing_since_ns(self) -> dict[str, int]:
        """Return the groups with an open rebalance, each with the monotonic process time of its start in
        nanoseconds."""
        entries: list[RebalanceInProgress | EpochInProgress] = [
            *self._open.values(),
            *self._epochs.open.values(),
        ]
        return {entry.group_id: entry.real_started_ns for entry in entries if not entry.is_settled}

    def find_rebalance_start_ns(self, group_id: str) -> int | None:
        """Return the monotonic process time in nanoseconds at which the open rebalance of a group began.

        Return None while the group does not rebalance.
        """
        for entry in (self._epochs.open.get(group_id), self._open.get(group_id)):
            if entry is not None and not entry.is_settled:
                return entry.real_started_ns
        return None

    def _list_closed(self, group_id: str | None, after: int) -> list[StoredEntry]:
        return self.store.list_all(after) if group_id is None else self.store.list_group(group_id, after)

    def _list_open(self, group_id: str | None) -> Iterable[RebalanceInProgress | EpochInProgress]:
        if group_id is None:
            return (*self._unloaded, *self._open.values(), *self._epochs.open.values())
        entry = self._open.get(group_id) or self._epochs.open.get(group_id)
        lost = [one for one in self._unloaded if one.group_id == group_id]
        return lost if entry is None else [*lost, entry]

    def _snapshot_entry(self, entry: RebalanceInProgress | EpochInProgress) -> LedgerEntry:
        result = EntryResult.FAILED if entry in self._unloaded else EntryResult.OPEN
        if isinstance(entry, EpochInProgress):
            return self._epochs.snapshot_entry(entry, result)
        now_ms = self._clocks.group_now(entry.group_id).monotonic_ms
        missed = self._missed.get(entry.group_id, {})
        real = compute_real_times(entry, self._clocks.real_ns())
        return build_entry(entry, result, now_ms, real, missed, self._count_partitions)

    # Events

    def on_event(self, partition: int, event: group_event_types.GroupEvent, number: int, now: Now) -> None:
        """Add an event of a group. This is an `EventListener`."""
        self.last_seq = number
        if self._unloaded:
            self._close_unloaded(number)
        self._epochs.on_event(partition, event, number, now)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event, now)
            entry = self._open.get(event.group_id)
            if entry is not None:
                entry.record_event(number)
                if entry.completed is not None and entry.is_complete:
                    self._close_entry(entry, determine_result(entry), now.monotonic_ms)
        elif type(event) is group_event_types.RebalanceStarted:
            self._on_rebalance_started(event, partition, number, now)

    def on_partition_unloaded(self, partition: int) -> None:
        """Close the entries of the groups of an unloaded offsets partition."""
        for entry in [entry for entry in self._open.values() if entry.partition == partition]:
            del self._open[entry.group_id]
            self._unloaded.append(entry)
        self._unloaded += self._epochs.on_partition_unloaded(partition)

    async def close(self) -> None:
        """Write the entries that have not reached the file."""
        if self.file is not None:
            await self.file.close()

    def _on_rebalance_started(
        self, event: group_event_types.RebalanceStarted, partition: int, number: int, now: Now
    ) -> None:
        before = self._open.get(event.group_id)
        attempt = 1
        if before is not None:
            attempt += before.attempt if before.completed is None else 0
            before.record_event(number)
            self._close_entry(before, determine_result(before), now.monotonic_ms)
        opening = EntryOpening(partition, number, now, self._clocks.real_ns(), clock.wall_ms())
        name = event.trigger.actor
        actor = None if name is None else self._build_actor(event.group_id, name, now)
        entry = RebalanceInProgress(event, opening, attempt, actor)
        self._actions.add_recent_to_entry(entry, opening.real_ns)
        self._open[event.group_id] = entry
        for earlier in self._triggers.take_events(event.group_id, now, self._clocks.turn()):
            if isinstance(earlier, GroupConverted):
                entry.cause = EpochEntryCause.DOWNGRADED
            elif type(earlier) in self._handlers:
                self._handlers[type(earlier)](earlier, now)

    def _build_actor(self, group_id: str, name: MemberName, now: Now) -> Actor:
        silence = self._triggers.find_actor_silence(
            group_id, name, now, self._clocks.turn(), self._connections
        )
        return Actor(
            member_id=format_name(name.member_id),
            group_instance_id=format_optional_name(name.group_instance_id),
            client_id=format_name(name.client_id),
            client_host=format_name(name.client_host),
            last_heard_ms_ago=silence.last_heard_ms_ago,
            real=silence.real,
        )

    def _find_joining(self, event: group_event_types.GroupEvent, now: Now) -> RebalanceInProgress | None:
        """Return the entry of an open join phase. Without one, keep the event as a trigger of a rebalance that
        may begin at once."""
        entry = self._open.get(event.group_id)
        if entry is not None and entry.is_joining:
            return entry
        self._triggers.add(event, now, self._clocks.turn())
        return None

    def _on_member_joined(self, event: group_event_types.MemberEvent, now: Now) -> None:
        entry = self._find_joining(event, now)
        if entry is not None:
            progress = entry.find_or_add_member(event.member)
            progress.rejoined_ms = now.monotonic_ms
            progress.is_new |= type(event) is group_event_types.MemberJoined

    def _on_told_to_rejoin(self, event: group_event_types.MemberToldToRejoin, now: Now) -> None:
        entry = self._find_joining(event, now)
        if entry is not None:
            progress = entry.find_or_add_member(event.member)
            if progress.told_ms is None and progress.rejoined_ms is None:
                progress.told_ms = now.monotonic_ms
                progress.told_by_heartbeat = event.operation == HEARTBEAT

    def _on_member_id_given(self, event: group_event_types.MemberIdRequired, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None and entry.is_joining:
            entry.find_or_add_member(event.member).id_given_ms = now.monotonic_ms

    def _on_member_replaced(self, event: group_event_types.StaticMemberReplaced, now: Now) -> None:
        missed = self._missed.get(event.group_id)
        if missed is not None:
            missed.pop(event.old_member_id, None)
        open_entry = self._open.get(event.group_id)
        if open_entry is not None:
            open_entry.replace_member(event.old_member_id, event.member)
        entry = self._find_joining(event, now)
        if entry is not None:
            entry.find_or_add_member(event.member).rejoined_ms = now.monotonic_ms

    def _on_member_gone(
        self, event: group_event_types.MemberLeft | group_event_types.MemberExpired, now: Now
    ) -> None:
        entry = self._find_joining(event, now) or self._open.get(event.group_id)
        if entry is None:
            return
        if isinstance(event, group_event_types.MemberLeft):
            cause = DepartureCause.LEFT.value
        elif event.pending:
            cause = "did not come back with its member id"
        else:
            cause = DepartureCause.SESSION_EXPIRED.value
        if not event.pending or event.member.member_id in entry.members:
            entry.mark_gone(event.member, cause, now.monotonic_ms)

    def _on_members_evicted(self, event: group_event_types.MembersEvicted, now: Now) -> None:
        entry = self._find_joining(event, now) or self._open.get(event.group_id)
        if entry is not None:
            is_join = event.phase == "join"
            cause = DepartureCause.NOT_REJOINED if is_join else DepartureCause.NOT_SYNCED
            for name in event.members:
                entry.mark_gone(name, cause.value, now.monotonic_ms)

    def _on_group_stabilized(
        self, event: group_event_types.GroupStabilized | group_event_types.GroupEmptied, now: Now
    ) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.mark_stabilized(event.generation_id, now.monotonic_ms, self._clocks.real_ns())
            if isinstance(event, group_event_types.GroupStabilized):
                entry.leader_id, entry.protocol_name = event.leader_id, event.protocol_name

    def _on_sync_received(self, event: group_event_types.SyncReceived, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.find_or_add_member(event.member).synced_ms = now.monotonic_ms

    def _on_rebalance_completed(self, event: group_event_types.RebalanceCompleted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.mark_settled(event, now.monotonic_ms, self._clocks.real_ns())

    def _on_assignment_fetched(self, event: group_event_types.AssignmentFetched, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            progress = entry.find_or_add_member(event.member)
            progress.synced_ms = now.monotonic_ms if progress.synced_ms is None else progress.synced_ms
            entry.unsynced.discard(event.member.member_id)

    def _on_commit_refused(self, event: group_event_types.CommitRefused, now: Now) -> None:
        entry = self._open.get(event.group_id)
        progress = (
            None if entry is None or event.member is None else entry.members.get(event.member.member_id)
        )
        if progress is not None:
            progress.count_refused_commit()

    def _on_group_deleted(self, event: group_event_types.GroupDeleted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.record_event(self.last_seq)
            self._close_entry(entry, determine_result(entry), now.monotonic_ms)
        self._missed.pop(event.group_id, None)

    def _on_group_converted(self, event: GroupConverted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None and event.to_type == GroupType.CONSUMER:
            self._close_entry(entry, determine_result(entry), now.monotonic_ms)

    def _on_action(self, action: OperatorAction) -> None:
        named_by = self._actions.add_to_entries(
            chain(self._open.values(), self._epochs.open.values()), action
        )
        if (
            action.group_id is not None
            and action.generation_id is not None
            and action.group_id not in self._open
        ):
            named_by |= self._amend_newest(action.group_id, action.generation_id, action)
        self._actions.add(action, named_by, self._clocks.real_ns())

    def _amend_newest(self, group_id: str, generation_id: int, action: OperatorAction) -> set[str]:
        """Add an action that keeps a member from its assignment to the closed entry of the generation.

        Return the group if that entry exists. The file keeps the earlier form.
        """
        stored = self.store.find_newest(group_id)
        entry = None if stored is None else self._decode(stored.data)
        if entry is None or (entry.generation_id, entry.result) != (generation_id, EntryResult.STABLE):
            return set()
        also = build_related_action(action)
        if also not in entry.also and len(entry.also) < MAX_RELATED_ACTIONS:
            amended = structs.replace(entry, also=[*entry.also, also])
            self.store.replace_newest(StoredEntry.pack(entry.seq, group_id, self._encode(amended)))
        return {group_id}

    # Closing

    def _close_unloaded(self, number: int) -> None:
        lost, self._unloaded = self._unloaded, []
        for entry in lost:
            entry.record_event(number)
            if isinstance(entry, EpochInProgress):
                self._epochs.close_entry(entry, EntryResult.FAILED)
            else:
                now_ms = self._clocks.group_now(entry.group_id).monotonic_ms
                self._close_entry(entry, determine_result(entry), now_ms)

    def _close_entry(self, entry: RebalanceInProgress, result: EntryResult, now_ms: int) -> None:
        if self._open.get(entry.group_id) is entry:
            del self._open[entry.group_id]
        missed = self._missed.pop(entry.group_id, {})
        real = compute_real_times(entry, self._clocks.real_ns())
        closed = build_entry(entry, result, now_ms, real, missed, self._count_partitions)
        closed = structs.replace(closed, real=real)
        if result is EntryResult.STABLE:
            self._record_missed(entry, missed)
        elif result is EntryResult.FAILED and missed:
            self._missed[entry.group_id] = missed
        self._store_entry(closed)

    def _store_entry(self, entry: LedgerEntry) -> None:
        data = self._encode(entry)
        self.store.add(StoredEntry.pack(entry.seq, entry.group_id, data))
        if self.file is not None:
            self.file.add(data)
        for listener in self.listeners:
            listener(entry)

    def _record_missed(self, entry: RebalanceInProgress, missed: dict[str, list[int]]) -> None:
        still = {
            member_id: [*missed.get(member_id, []), entry.generation_id][-MAX_MISSED:]
            for member_id, progress in entry.members.items()
            if progress.gone_cause is None and missed_generation(progress)
        }
        if still:
            self._missed[entry.group_id] = still
