"""An epoch of a consumer group while its members go to their new target: what events have told of it so far.

Opened by EpochBumped. It is over when every member has what the target of that epoch gives it, or when the next one
comes. Times are the group's, monotonic, but for those whose names say that they are real.
"""

from coordinator.control.ledger.entry import Actor, AlsoActed
from coordinator.control.ledger.open_entry import MAX_ALSO, MAX_STRANGERS
from coordinator.group.consumer.events import EpochBumped, MemberReconciled, TargetComputed
from coordinator.group.consumer.member import NO_TARGET, MemberState, Target
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Now

_STABLE = MemberState.STABLE.name


class EpochTrack:
    """What is noted of one member. `told_ms` is when it was told something of its new target first; `revoking` are
    so many partitions that it has to give up, `revoking_ms` since when, `revoked_ms` when it said that it did;
    `missing` are those that others have not given up; `reached_ms`: it has its target."""

    __slots__ = (
        "before",
        "commits_refused",
        "gone",
        "is_new",
        "member_epoch",
        "missing",
        "name",
        "reached_ms",
        "revoked_ms",
        "revoking",
        "revoking_ms",
        "target",
        "told_ms",
    )

    def __init__(self, name: MemberName) -> None:
        self.name = name
        self.is_new = False
        self.member_epoch: int | None = None
        self.before: Target = NO_TARGET
        self.target: Target | None = None
        self.told_ms: int | None = None
        self.revoking = 0
        self.revoking_ms: int | None = None
        self.revoked_ms: int | None = None
        self.missing = 0
        self.reached_ms: int | None = None
        self.gone: str | None = None
        self.commits_refused = 0


class OpenEpoch:
    """See the top of this file. `number` is that of the last event of it; `behind` are the ids of the members that
    have not reached their target, None while there is none for this epoch; `members` counts those of the group."""

    __slots__ = (
        "actor",
        "also",
        "assignment_epoch",
        "assignor",
        "behind",
        "cause",
        "from_state",
        "group_epoch",
        "group_id",
        "members",
        "number",
        "partition",
        "real_started_ns",
        "real_targeted_ns",
        "reason",
        "started_ms",
        "started_wall_ms",
        "targeted_ms",
        "tracks",
        "wall_ms",
    )

    def __init__(
        self,
        bumped: EpochBumped,
        partition: int,
        number: int,
        now: Now,
        real_ns: int,
        wall_ms: int,
        cause: str,
        reason: str,
        actor: Actor | None,
        before: "OpenEpoch | None",
    ) -> None:
        self.group_id = bumped.group_id
        self.group_epoch = bumped.generation_id
        self.members = bumped.members
        self.partition = partition
        self.number = number
        self.cause = cause
        self.reason = reason
        self.actor = actor
        self.also: list[AlsoActed] = []
        self.from_state = bumped.state
        self.started_ms = now.monotonic_ms
        self.started_wall_ms = now.wall_ms
        """Unix time as the group's clock has it; `wall_ms` is Unix time."""
        self.wall_ms = wall_ms
        self.real_started_ns = real_ns
        self.targeted_ms: int | None = None
        self.real_targeted_ns: int | None = None
        self.assignment_epoch: int | None = None if before is None else before.assignment_epoch
        self.assignor: str | None = None
        self.behind: set[str] | None = None
        self.tracks: dict[str, EpochTrack] = {}
        if before is not None:
            self._goes_on(before)

    def _goes_on(self, before: "OpenEpoch") -> None:
        """Who has to give something up does so whatever the epoch is."""
        for member_id, old in before.tracks.items():
            if old.revoking and old.gone is None:
                track = self.track(old.name)
                track.member_epoch = old.member_epoch
                track.revoking, track.revoking_ms = old.revoking, old.revoking_ms
                self.tracks[member_id] = track

    @property
    def is_settled(self) -> bool:
        """Whether only a fault can still be in the way of a member: never, while it is open."""
        return False

    @property
    def is_complete(self) -> bool:
        """Whether every member has its target; an empty group has none."""
        return not self.members or (self.behind is not None and not self.behind)

    def track(self, name: MemberName) -> EpochTrack:
        """What is noted of a member, from now on where nothing was."""
        found = self.tracks.get(name.member_id)
        if found is None:
            found = self.tracks[name.member_id] = EpochTrack(name)
        return found

    def gone(self, name: MemberName, cause: str, before: Target) -> None:
        """It is no member any more, and was to have that."""
        track = self.track(name)
        track.gone, track.before, track.revoking, track.missing = cause, before, 0, 0

    def replaced(self, old_member_id: str, name: MemberName) -> None:
        """A static member goes on under another id."""
        track = self.tracks.pop(old_member_id, None)
        if track is not None:
            track.name = name
            self.tracks[name.member_id] = track
        if self.behind is not None and old_member_id in self.behind:
            self.behind.remove(old_member_id)
            self.behind.add(name.member_id)

    def targeted(self, computed: TargetComputed, now_ms: int, real_ns: int) -> None:
        """Who is to have what is known; everybody has yet to hear of it."""
        self.targeted_ms, self.real_targeted_ns = now_ms, real_ns
        self.assignment_epoch, self.assignor = computed.generation_id, computed.assignor
        for one in computed.targets:
            track = self.track(one.member)
            track.before, track.target = one.before, one.target
        self.behind = {one.member.member_id for one in computed.targets}

    def reconciled(self, event: MemberReconciled, now_ms: int) -> None:
        """A member goes a step."""
        if len(self.tracks) > self.members + MAX_STRANGERS and event.member.member_id not in self.tracks:
            return
        track = self.track(event.member)
        track.member_epoch, track.missing = event.member_epoch, event.missing
        if self.behind is not None and track.told_ms is None:
            track.told_ms = now_ms
        if event.pending and not track.revoking:
            track.revoking_ms, track.revoked_ms = now_ms, None
        elif track.revoking and not event.pending:
            track.revoked_ms = now_ms
        track.revoking = event.pending
        is_there = event.member_epoch == self.group_epoch and event.state == _STABLE
        if self.behind is not None and is_there and event.member.member_id in self.behind:
            track.reached_ms = now_ms
            self.behind.remove(event.member.member_id)

    def note_act(self, act: AlsoActed) -> None:
        """Something was done on purpose."""
        if len(self.also) < MAX_ALSO and act not in self.also:
            self.also.append(act)
