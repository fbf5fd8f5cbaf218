"""An entry while its rebalance goes on: what events have told of it so far.

Opened by RebalanceStarted. It is *settled* by RebalanceCompleted, and complete when nobody's SyncGroup is awaited
any more. Times are the group's, monotonic, but for those whose names say that they are real.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.control.ledger.entry import Actor, AlsoActed
from coordinator.control.ledger.member_track import MemberTrack
from coordinator.group.events import RebalanceCompleted, RebalanceStarted
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Now

MAX_ALSO: Final = 20
"""Acts that an entry names; of more the first."""
MAX_STRANGERS: Final = 1_000
"""Members that came after the start and went before the end, of whom something is noted: while a group waits,
clients may come and go for as long as they like."""


class OpenEntry:
    """See the top of this file. `number` is that of the last event of it; `member_ids` that are in `unsynced` have
    not fetched their assignment."""

    __slots__ = (
        "actor",
        "also",
        "attempt",
        "cause",
        "completed",
        "generation_id",
        "group_id",
        "leader_id",
        "number",
        "partition",
        "protocol_name",
        "real_settled_ns",
        "real_stabilized_ns",
        "real_started_ns",
        "settled_ms",
        "stabilized_ms",
        "started",
        "started_ms",
        "started_wall_ms",
        "strangers_gone",
        "tracks",
        "unsynced",
        "wall_ms",
    )

    def __init__(
        self,
        started: RebalanceStarted,
        partition: int,
        number: int,
        now: Now,
        real_ns: int,
        wall_ms: int,
        attempt: int,
        actor: Actor | None,
    ) -> None:
        self.group_id = started.group_id
        self.started = started
        self.cause = started.trigger.cause.value
        self.partition = partition
        self.number = number
        self.attempt = attempt
        self.actor = actor
        self.also: list[AlsoActed] = []
        self.generation_id = started.generation_id + 1
        self.started_ms = now.monotonic_ms
        self.started_wall_ms = now.wall_ms
        """Unix time as the group's clock has it; `wall_ms` is Unix time."""
        self.wall_ms = wall_ms
        self.real_started_ns = real_ns
        self.stabilized_ms: int | None = None
        self.real_stabilized_ns = 0
        self.settled_ms: int | None = None
        self.real_settled_ns = 0
        self.leader_id: str | None = None
        self.protocol_name: str | None = None
        self.completed: RebalanceCompleted | None = None
        self.unsynced: set[str] = set()
        self.strangers_gone = 0
        """Those of whom nothing is noted."""
        self.tracks = {name.member_id: MemberTrack(name, was_there=True) for name in started.members}

    @property
    def is_complete(self) -> bool:
        """Whether nothing more can come of it."""
        return self.completed is not None and not self.unsynced

    @property
    def is_settled(self) -> bool:
        """Whether all have rejoined, so that only a fault can still be in the way of a member."""
        return self.completed is not None

    @property
    def is_joining(self) -> bool:
        """Whether its join phase goes on."""
        return self.stabilized_ms is None and self.completed is None

    def track(self, name: MemberName) -> MemberTrack:
        """What is noted of a member, from now on where nothing was."""
        found = self.tracks.get(name.member_id)
        if found is None:
            found = self.tracks[name.member_id] = MemberTrack(name, was_there=False)
        return found

    def gone(self, name: MemberName, cause: str, now_ms: int) -> None:
        """It is no member any more."""
        track = self.track(name)
        track.gone, track.gone_ms = cause, now_ms
        if not track.was_there and len(self.tracks) - len(self.started.members) > MAX_STRANGERS:
            del self.tracks[name.member_id]
            self.strangers_gone += 1

    def replaced(self, old_member_id: str, name: MemberName) -> None:
        """A static member goes on under another id."""
        track = self.tracks.pop(old_member_id, None) or MemberTrack(name, was_there=True)
        track.name = name
        self.tracks[name.member_id] = track
        if old_member_id in self.unsynced:
            self.unsynced.remove(old_member_id)
            self.unsynced.add(name.member_id)

    def stabilized(self, generation_id: int, now_ms: int, real_ns: int) -> None:
        """The join phase is over."""
        self.generation_id = generation_id
        self.stabilized_ms, self.real_stabilized_ns = now_ms, real_ns

    def settled(self, completed: RebalanceCompleted, now_ms: int, real_ns: int) -> None:
        """The group is Stable or Empty."""
        self.completed = completed
        self.settled_ms, self.real_settled_ns = now_ms, real_ns
        self.protocol_name, self.leader_id = completed.protocol_name, completed.leader_id
        self.unsynced = {one.member.member_id for one in completed.members}
        for one in completed.members:
            self.track(one.member).assigned = one
        for departure in completed.gone:
            track = self.track(departure.member)
            track.had = departure.assignment
            if track.gone is None:  # that was in an attempt before this one
                track.gone, track.gone_ms = departure.cause.value, self.started_ms

    def note_act(self, act: AlsoActed) -> None:
        """Something was done on purpose."""
        if len(self.also) < MAX_ALSO and act not in self.also:
            self.also.append(act)

    def waits(self, now_ms: int) -> "Waits":
        """How long the group waited for each member in its join phase, and in its sync phase, until now."""
        joined_ms = self.stabilized_ms
        if joined_ms is None:
            joined_ms = now_ms if self.settled_ms is None else self.settled_ms
        return {member_id: self._waited(track, joined_ms, now_ms) for member_id, track in self.tracks.items()}

    def _waited(self, track: MemberTrack, joined_ms: int, now_ms: int) -> tuple[int, int]:
        started_ms, gone_ms, synced_ms = self.started_ms, track.gone_ms, track.synced_ms
        end_ms = joined_ms if track.rejoined_ms is None else min(track.rejoined_ms, joined_ms)
        if gone_ms is not None and gone_ms < end_ms:
            end_ms = gone_ms
        join_ms = sync_ms = 0
        if track.was_there:
            join_ms = end_ms - started_ms
        elif track.id_given_ms is not None:
            join_ms = end_ms - max(track.id_given_ms, started_ms)
        if self.stabilized_ms is not None and (gone_ms is None or gone_ms > joined_ms):
            end_ms = now_ms if synced_ms is None else synced_ms
            if gone_ms is not None and gone_ms < end_ms:
                end_ms = gone_ms
            sync_ms = end_ms - joined_ms
        return max(0, join_ms), max(0, sync_ms)


Waits = Mapping[str, tuple[int, int]]
"""By member id: milliseconds of the join phase, and of the sync phase."""
