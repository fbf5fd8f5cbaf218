"""Why each group rebalanced: one entry for each time that a rebalance began, made of events alone, always on.

It listens to what groups tell, of which commits are no part. An entry is open from RebalanceStarted until the
group is Stable or Empty and nobody's SyncGroup is awaited any more, until the next one begins, or the groups are
unloaded. Of consumer groups `epochs.py` hears.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final, Protocol

from msgspec import json, structs

from coordinator import clock
from coordinator.control.acts import Act, Acts
from coordinator.control.ledger.closing import CountPartitions, made_entry, missed_it, real_times, result_of
from coordinator.control.ledger.early import Early
from coordinator.control.ledger.entry import Actor, EntryResult, LedgerEntry
from coordinator.control.ledger.epoch_cause import EpochWord
from coordinator.control.ledger.epochs import Epochs
from coordinator.control.ledger.file import LedgerFile
from coordinator.control.ledger.names import shown, shown_or_none
from coordinator.control.ledger.open_entry import MAX_ALSO, OpenEntry
from coordinator.control.ledger.open_epoch import OpenEpoch
from coordinator.control.ledger.recent_acts import RecentActs, also_acted
from coordinator.control.ledger.store import LedgerStore, Stored
from coordinator.control.ledger.topic_names import TopicNames
from coordinator.group import events
from coordinator.group.consumer.events import GroupConverted
from coordinator.group.group_type import GroupType
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import DepartureCause
from coordinator.group.topics_image import NO_TOPICS, TopicsImage
from coordinator.machine.outcome import Now

HEARTBEAT: Final = "heartbeat"
MAX_MISSED: Final = 20


class SeenConnections(Protocol):
    """What is known of connections by their numbers, on the process's clock."""

    def silent_ms(self, connection_id: int) -> int | None:
        """How long ago bytes last came over one, or left; None where that is not known."""

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        """How long one has been closed; None where it is open, or that is not known."""


class Ledger:
    """See the top of this file. All methods belong to the event loop's thread."""

    def __init__(
        self,
        acts: Acts,
        connections: SeenConnections,
        count_partitions: CountPartitions,
        now_of: Callable[[str], Now],
        most_bytes: int,
        file: LedgerFile | None = None,
        real_ns: Callable[[], int] = clock.monotonic_ns,
        turn: Callable[[], int] = lambda: 0,
        topics: Callable[[], TopicsImage] = lambda: NO_TOPICS,
    ) -> None:
        """In: how many partitions a topic has; the time of a group; what may be kept; where it is written too; the
        process's clock; the number of the turn whose events are being told; the topics, as groups know them."""
        self.listeners: list[Callable[[LedgerEntry], None]] = []
        """Called, each, with an entry that has just been closed."""
        self.last_seq = -1
        """The number of the last event: every entry that is closed from now on has a higher one."""
        self.store = LedgerStore(most_bytes)
        self.file = file
        self._connections = connections
        self._count_partitions = count_partitions
        self.now_of = now_of
        self._real_ns = real_ns
        self._turn = turn
        self._open: dict[str, OpenEntry] = {}
        self._lost: list[OpenEntry | OpenEpoch] = []
        """Those of groups that were unloaded: the next event closes them."""
        self._early = Early()
        self._missed: dict[str, dict[str, list[int]]] = {}
        """Of members that are still there and were not in the last Stable generation: those that they missed."""
        self._acts = RecentActs()
        self._epochs = Epochs(
            self._early,
            TopicNames(topics),
            self._actor,
            lambda entry: self._acts.tell(entry, real_ns()),
            self._keep,
            now_of,
            real_ns,
            turn,
        )
        self._encode = json.Encoder().encode
        self._decode = json.Decoder(LedgerEntry).decode
        self._on: dict[type[events.Event], Callable[[Any, Now], None]] = {
            events.MemberJoined: self._joined,
            events.MemberRejoined: self._joined,
            events.StaticMemberReplaced: self._replaced,
            events.MemberIdRequired: self._id_given,
            events.MemberToldToRejoin: self._told,
            events.MemberLeft: self._gone,
            events.MemberExpired: self._gone,
            events.MembersEvicted: self._evicted,
            events.GroupStabilized: self._stabilized,
            events.GroupEmptied: self._stabilized,
            events.SyncReceived: self._synced,
            events.RebalanceCompleted: self._completed,
            events.AssignmentFetched: self._fetched,
            events.CommitRefused: self._commit_refused,
            events.GroupDeleted: self._deleted,
            GroupConverted: self._converted,
        }
        acts.listeners.append(self._acted)

    # What people ask

    def entries(
        self, group_id: str | None = None, after: int = -1, limit: int = 100, *, last: int | None = None
    ) -> list[LedgerEntry]:
        """The entries of a group, or of all, with higher numbers than `after`: oldest first, open ones at the end.
        At most `limit`, or, where it is given, the `last` so many."""
        closed = self._closed(group_id, after)
        open_entries = [entry for entry in self._not_closed(group_id) if entry.number > after]
        if last is not None:
            first_open = max(0, len(open_entries) - last)
            closed = closed[max(0, len(closed) - max(0, last - len(open_entries))) :]
            open_entries, limit = open_entries[first_open:], last
        found = [self._decode(one.data) for one in closed[:limit]]
        return found + [self._as_it_is(entry) for entry in open_entries[: limit - len(found)]]

    def lines(self, group_id: str | None = None, after: int = -1) -> Iterable[bytes]:
        """The entries that are closed, oldest first, as lines of JSON."""
        return (one.data + b"\n" for one in self._closed(group_id, after))

    def knows(self, group_id: str) -> bool:
        """Whether it has anything to say of a group."""
        return bool(self._closed(group_id, -1)) or any(True for _ in self._not_closed(group_id))

    def rebalancing_since_ns(self) -> dict[str, int]:
        """The groups that rebalance now, and since when on the process's clock."""
        entries: list[OpenEntry | OpenEpoch] = [*self._open.values(), *self._epochs.open.values()]
        return {entry.group_id: entry.real_started_ns for entry in entries if not entry.is_settled}

    def _closed(self, group_id: str | None, after: int) -> list[Stored]:
        return self.store.of_all(after) if group_id is None else self.store.of_group(group_id, after)

    def _not_closed(self, group_id: str | None) -> Iterable[OpenEntry | OpenEpoch]:
        if group_id is None:
            return (*self._lost, *self._open.values(), *self._epochs.open.values())
        entry = self._open.get(group_id) or self._epochs.open.get(group_id)
        lost = [one for one in self._lost if one.group_id == group_id]
        return lost if entry is None else [*lost, entry]

    def _as_it_is(self, entry: OpenEntry | OpenEpoch) -> LedgerEntry:
        result = EntryResult.FAILED if entry in self._lost else EntryResult.OPEN
        if isinstance(entry, OpenEpoch):
            return self._epochs.as_it_is(entry, result)
        now_ms = self.now_of(entry.group_id).monotonic_ms
        missed = self._missed.get(entry.group_id, {})
        real = real_times(entry, self._real_ns())
        return made_entry(entry, result, now_ms, real, missed, self._count_partitions)

    # What happens

    def observe(self, partition: int, event: events.Event, number: int, now: Now) -> None:
        """An `EventListener`."""
        self.last_seq = number
        if self._lost:
            self._close_lost(number)
        self._epochs.observe(partition, event, number, now)
        handler = self._on.get(type(event))
        if handler is not None:
            handler(event, now)
            entry = self._open.get(event.group_id)
            if entry is not None:
                entry.number = number
                if entry.completed is not None and entry.is_complete:
                    self._close(entry, result_of(entry), now.monotonic_ms)
        elif type(event) is events.RebalanceStarted:
            self._started(event, partition, number, now)

    def unloaded(self, partition: int) -> None:
        """The groups of an offsets partition are no longer here: what goes on in them comes to nothing."""
        for entry in [entry for entry in self._open.values() if entry.partition == partition]:
            del self._open[entry.group_id]
            self._lost.append(entry)
        self._lost += self._epochs.unloaded(partition)

    async def close(self) -> None:
        """Writes what has not reached the file."""
        if self.file is not None:
            await self.file.close()

    def _started(self, event: events.RebalanceStarted, partition: int, number: int, now: Now) -> None:
        before = self._open.get(event.group_id)
        attempt = 1
        if before is not None:
            attempt += before.attempt if before.completed is None else 0
            before.number = number
            self._close(before, result_of(before), now.monotonic_ms)
        real_ns = self._real_ns()
        name = event.trigger.actor
        actor = None if name is None else self._actor(event.group_id, name, now)
        entry = OpenEntry(event, partition, number, now, real_ns, clock.wall_ms(), attempt, actor)
        self._acts.tell(entry, real_ns)
        self._open[event.group_id] = entry
        for earlier in self._early.take(event.group_id, now, self._turn()):
            if isinstance(earlier, GroupConverted):
                entry.cause = EpochWord.DOWNGRADED
            elif type(earlier) in self._on:
                self._on[type(earlier)](earlier, now)

    def _actor(self, group_id: str, name: MemberName, now: Now) -> Actor:
        seen = self._early.actor_seen(group_id, name, now, self._turn(), self._connections)
        return Actor(
            member_id=shown(name.member_id),
            group_instance_id=shown_or_none(name.group_instance_id),
            client_id=shown(name.client_id),
            client_host=shown(name.client_host),
            last_heard_ms_ago=seen.last_heard_ms_ago,
            real=seen.real,
        )

    def _joining(self, event: events.Event, now: Now) -> OpenEntry | None:
        """The entry of a join phase that goes on. Otherwise the event may be about one that begins at once."""
        entry = self._open.get(event.group_id)
        if entry is not None and entry.is_joining:
            return entry
        self._early.add(event, now, self._turn())
        return None

    def _joined(self, event: events.MemberEvent, now: Now) -> None:
        entry = self._joining(event, now)
        if entry is not None:
            track = entry.track(event.member)
            track.rejoined_ms = now.monotonic_ms
            track.is_new |= type(event) is events.MemberJoined

    def _told(self, event: events.MemberToldToRejoin, now: Now) -> None:
        entry = self._joining(event, now)
        if entry is not None:
            track = entry.track(event.member)
            if track.told_ms is None and track.rejoined_ms is None:
                track.told_ms = now.monotonic_ms
                track.told_by_heartbeat = event.operation == HEARTBEAT

    def _id_given(self, event: events.MemberIdRequired, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None and entry.is_joining:
            entry.track(event.member).id_given_ms = now.monotonic_ms

    def _replaced(self, event: events.StaticMemberReplaced, now: Now) -> None:
        missed = self._missed.get(event.group_id)
        if missed is not None:
            missed.pop(event.old_member_id, None)
        open_entry = self._open.get(event.group_id)
        if open_entry is not None:
            open_entry.replaced(event.old_member_id, event.member)
        entry = self._joining(event, now)
        if entry is not None:
            entry.track(event.member).rejoined_ms = now.monotonic_ms

    def _gone(self, event: events.MemberLeft | events.MemberExpired, now: Now) -> None:
        entry = self._joining(event, now) or self._open.get(event.group_id)
        if entry is None:
            return
        if isinstance(event, events.MemberLeft):
            cause = DepartureCause.LEFT.value
        elif event.pending:
            cause = "did not come back with its member id"
        else:
            cause = DepartureCause.SESSION_EXPIRED.value
        if not event.pending or event.member.member_id in entry.tracks:
            entry.gone(event.member, cause, now.monotonic_ms)

    def _evicted(self, event: events.MembersEvicted, now: Now) -> None:
        entry = self._joining(event, now) or self._open.get(event.group_id)
        if entry is not None:
            is_join = event.phase == "join"
            cause = DepartureCause.NOT_REJOINED if is_join else DepartureCause.NOT_SYNCED
            for name in event.members:
                entry.gone(name, cause.value, now.monotonic_ms)

    def _stabilized(self, event: events.GroupStabilized | events.GroupEmptied, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.stabilized(event.generation_id, now.monotonic_ms, self._real_ns())
            if isinstance(event, events.GroupStabilized):
                entry.leader_id, entry.protocol_name = event.leader_id, event.protocol_name

    def _synced(self, event: events.SyncReceived, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.track(event.member).synced_ms = now.monotonic_ms

    def _completed(self, event: events.RebalanceCompleted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.settled(event, now.monotonic_ms, self._real_ns())

    def _fetched(self, event: events.AssignmentFetched, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            track = entry.track(event.member)
            track.synced_ms = now.monotonic_ms if track.synced_ms is None else track.synced_ms
            entry.unsynced.discard(event.member.member_id)

    def _commit_refused(self, event: events.CommitRefused, now: Now) -> None:
        entry = self._open.get(event.group_id)
        track = None if entry is None or event.member is None else entry.tracks.get(event.member.member_id)
        if track is not None:
            track.commits_refused += 1

    def _deleted(self, event: events.GroupDeleted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None:
            entry.number = self.last_seq
            self._close(entry, result_of(entry), now.monotonic_ms)
        self._missed.pop(event.group_id, None)

    def _converted(self, event: GroupConverted, now: Now) -> None:
        entry = self._open.get(event.group_id)
        if entry is not None and event.to_type == GroupType.CONSUMER:
            self._close(entry, result_of(entry), now.monotonic_ms)

    def _acted(self, act: Act) -> None:
        named_by = self._acts.note_in(chain(self._open.values(), self._epochs.open.values()), act)
        if act.group_id is not None and act.generation_id is not None and act.group_id not in self._open:
            named_by |= self._amend(act.group_id, act.generation_id, act)
        self._acts.add(act, named_by, self._real_ns())

    def _amend(self, group_id: str, generation_id: int, act: Act) -> set[str]:
        """What keeps a member from its assignment belongs to the generation, whose entry is closed before the
        answer leaves. Out: the group, where there is that entry. The file has it as it was."""
        stored = self.store.last_of(group_id)
        entry = None if stored is None else self._decode(stored.data)
        if entry is None or (entry.generation_id, entry.result) != (generation_id, EntryResult.STABLE):
            return set()
        also = also_acted(act)
        if also not in entry.also and len(entry.also) < MAX_ALSO:
            amended = structs.replace(entry, also=[*entry.also, also])
            self.store.amend(Stored.of(entry.seq, group_id, self._encode(amended)))
        return {group_id}

    # Closing

    def _close_lost(self, number: int) -> None:
        lost, self._lost = self._lost, []
        for entry in lost:
            entry.number = number
            if isinstance(entry, OpenEpoch):
                self._epochs.closed(entry, EntryResult.FAILED)
            else:
                self._close(entry, result_of(entry), self.now_of(entry.group_id).monotonic_ms)

    def _close(self, entry: OpenEntry, result: EntryResult, now_ms: int) -> None:
        if self._open.get(entry.group_id) is entry:
            del self._open[entry.group_id]
        missed = self._missed.pop(entry.group_id, {})
        real = real_times(entry, self._real_ns())
        made = made_entry(entry, result, now_ms, real, missed, self._count_partitions)
        made = structs.replace(made, real=real)
        if result is EntryResult.STABLE:
            self._note_missed(entry, missed)
        elif result is EntryResult.FAILED and missed:
            self._missed[entry.group_id] = missed
        self._keep(made)

    def _keep(self, made: LedgerEntry) -> None:
        data = self._encode(made)
        self.store.add(Stored.of(made.seq, made.group_id, data))
        if self.file is not None:
            self.file.add(data)
        for listener in self.listeners:
            listener(made)

    def _note_missed(self, entry: OpenEntry, missed: dict[str, list[int]]) -> None:
        still = {
            member_id: [*missed.get(member_id, []), entry.generation_id][-MAX_MISSED:]
            for member_id, track in entry.tracks.items()
            if track.gone is None and missed_it(track)
        }
        if still:
            self._missed[entry.group_id] = still
