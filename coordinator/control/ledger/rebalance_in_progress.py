"""A rebalance of a classic group in progress, as group events have described it so far, and the progress of
each member.

RebalanceStarted opens it and RebalanceCompleted settles it. It is complete when the group awaits no further
SyncGroup. Times are monotonic group time in milliseconds, except for fields that are named `real` or `wall`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator.control.ledger.ledger_entry import Actor, RelatedAction
from coordinator.core.outcome import Now
from coordinator.group.event_details import MemberAssignment, MemberName
from coordinator.group.group_event_types import RebalanceCompleted, RebalanceStarted


class MemberProgress:
    """The progress of one member. `was_member`: it was a member when the rebalance began, and has to rejoin.
    `is_new`: it was added in this rebalance. `id_given_ms`: the time at which a client that had not joined yet
    got its member id. `commits_refused` is the number of refused commit requests."""

    __slots__ = (
        "assigned",
        "commits_refused",
        "gone_cause",
        "gone_ms",
        "id_given_ms",
        "is_new",
        "name",
        "previous_assignment",
        "rejoined_ms",
        "synced_ms",
        "told_by_heartbeat",
        "told_ms",
        "was_member",
    )

    def __init__(self, name: MemberName, *, was_member: bool) -> None:
        self.name = name
        self.was_member = was_member
        self.is_new = False
        self.id_given_ms: int | None = None
        self.told_ms: int | None = None
        self.told_by_heartbeat = True
        """Whether a heartbeat response, and not another response, asked the member to rejoin."""
        self.rejoined_ms: int | None = None
        self.synced_ms: int | None = None
        self.assigned: MemberAssignment | None = None
        """Its previous and its new assignment. A static member may have restarted since."""
        self.gone_cause: str | None = None
        self.gone_ms: int | None = None
        self.previous_assignment = b""
        """The assignment of a departed member in its last Stable generation."""
        self.commits_refused = 0

    def count_refused_commit(self) -> None:
        """Count a commit of the member that the group refused."""
        self.commits_refused += 1

    def complete(self, assigned: MemberAssignment) -> None:
        """Record the assignment with which the rebalance is complete for the member."""
        self.assigned = assigned

    def replace_name(self, name: MemberName) -> None:
        """Continue under the name of the static member that replaces this one."""
        self.name = name


class EntryOpening(NamedTuple):
    """The event that opens an entry: its offsets partition, its number, and its times."""

    partition: int
    seq: int
    now: Now
    """The time of the group."""
    real_ns: int
    """The monotonic time of the process."""
    wall_ms: int
    """The Unix time of the process."""


MAX_RELATED_ACTIONS: Final = 20
"""The maximum number of operator actions that an entry names. Later ones are left out."""
MAX_LATE_MEMBERS: Final = 1_000
"""The maximum number of observed members that joined and left during a rebalance. While a group waits, any
number of clients can come and go."""


class RebalanceInProgress:
    """An open rebalance. `last_seq` is the number of its last event. `unsynced` has the ids of members that have
    not fetched their assignment."""

    __slots__ = (
        "actor",
        "attempt",
        "cause",
        "completed",
        "generation_id",
        "group_id",
        "last_seq",
        "late_members_gone",
        "leader_id",
        "members",
        "partition",
        "protocol_name",
        "real_settled_ns",
        "real_stabilized_ns",
        "real_started_ns",
        "related_actions",
        "settled_ms",
        "stabilized_ms",
        "started",
        "started_ms",
        "started_wall_ms",
        "unsynced",
        "wall_ms",
    )

    def __init__(
        self,
        started: RebalanceStarted,
        opening: EntryOpening,
        attempt: int,
        actor: Actor | None,
    ) -> None:
        self.group_id = started.group_id
        self.started = started
        self.cause = started.trigger.cause.value
        self.partition, self.last_seq, now, self.real_started_ns, self.wall_ms = opening
        self.attempt = attempt
        self.actor = actor
        self.related_actions: list[RelatedAction] = []
        self.generation_id = started.generation_id + 1
        self.started_ms = now.monotonic_ms
        self.started_wall_ms = now.wall_ms
        """Unix time of the group's clock. `wall_ms` is the Unix time of the process."""
        self.stabilized_ms: int | None = None
        self.real_stabilized_ns = 0
        self.settled_ms: int | None = None
        self.real_settled_ns = 0
        self.leader_id: str | None = None
        self.protocol_name: str | None = None
        self.completed: RebalanceCompleted | None = None
        self.unsynced: set[str] = set()
        self.late_members_gone = 0
        """The number of departed members beyond `MAX_LATE_MEMBERS`."""
        self.members = {name.member_id: MemberProgress(name, was_member=True) for name in started.members}

    def record_event(self, number: int) -> None:
        """Record the number of the last event of the rebalance."""
        self.last_seq = number

    @property
    def is_complete(self) -> bool:
        """Whether the rebalance is over and all members have fetched their assignment."""
        return self.completed is not None and not self.unsynced

    @property
    def is_settled(self) -> bool:
        """Whether all members have rejoined, so that only a fault can delay them."""
        return self.completed is not None

    @property
    def is_joining(self) -> bool:
        """Whether its join phase continues."""
        return self.stabilized_ms is None and self.completed is None

    def find_or_add_member(self, name: MemberName) -> MemberProgress:
        """Return the progress of a member; create it if it is missing."""
        found = self.members.get(name.member_id)
        if found is None:
            found = self.members[name.member_id] = MemberProgress(name, was_member=False)
        return found

    def mark_gone(self, name: MemberName, cause: str, now_ms: int) -> None:
        """Record that a member left."""
        progress = self.find_or_add_member(name)
        progress.gone_cause, progress.gone_ms = cause, now_ms
        if not progress.was_member and len(self.members) - len(self.started.members) > MAX_LATE_MEMBERS:
            del self.members[name.member_id]
            self.late_members_gone += 1

    def replace_member(self, old_member_id: str, name: MemberName) -> None:
        """Continue the progress of a static member under another member id."""
        progress = self.members.pop(old_member_id, None) or MemberProgress(name, was_member=True)
        progress.replace_name(name)
        self.members[name.member_id] = progress
        if old_member_id in self.unsynced:
            self.unsynced.remove(old_member_id)
            self.unsynced.add(name.member_id)

    def mark_stabilized(self, generation_id: int, now_ms: int, real_ns: int) -> None:
        """Record the end of the join phase."""
        self.generation_id = generation_id
        self.stabilized_ms, self.real_stabilized_ns = now_ms, real_ns

    def mark_settled(self, completed: RebalanceCompleted, now_ms: int, real_ns: int) -> None:
        """Record that the group is Stable or Empty."""
        self.completed = completed
        self.settled_ms, self.real_settled_ns = now_ms, real_ns
        self.protocol_name, self.leader_id = completed.protocol_name, completed.leader_id
        self.unsynced = {one.member.member_id for one in completed.members}
        for one in completed.members:
            self.find_or_add_member(one.member).complete(one)
        for departure in completed.gone:
            progress = self.find_or_add_member(departure.member)
            progress.previous_assignment = departure.assignment
            if progress.gone_cause is None:  # it left in an earlier attempt
                progress.gone_cause, progress.gone_ms = departure.cause.value, self.started_ms

    def add_related_action(self, action: RelatedAction) -> None:
        """Add an operator action, up to a limit."""
        if len(self.related_actions) < MAX_RELATED_ACTIONS and action not in self.related_actions:
            self.related_actions.append(action)

    def compute_waits(self, now_ms: int) -> "WaitsByMember":
        """Return the time that the group has waited for each member in its join phase and in its sync phase."""
        joined_ms = self.stabilized_ms
        if joined_ms is None:
            joined_ms = now_ms if self.settled_ms is None else self.settled_ms
        return {
            member_id: self._compute_wait(progress, joined_ms, now_ms)
            for member_id, progress in self.members.items()
        }

    def _compute_wait(self, progress: MemberProgress, joined_ms: int, now_ms: int) -> tuple[int, int]:
        started_ms, gone_ms, synced_ms = self.started_ms, progress.gone_ms, progress.synced_ms
        end_ms = joined_ms if progress.rejoined_ms is None else min(progress.rejoined_ms, joined_ms)
        if gone_ms is not None and gone_ms < end_ms:
            end_ms = gone_ms
        join_ms = sync_ms = 0
        if progress.was_member:
            join_ms = end_ms - started_ms
        elif progress.id_given_ms is not None:
            join_ms = end_ms - max(progress.id_given_ms, started_ms)
        if self.stabilized_ms is not None and (gone_ms is None or gone_ms > joined_ms):
            end_ms = now_ms if synced_ms is None else synced_ms
            if gone_ms is not None and gone_ms < end_ms:
                end_ms = gone_ms
            sync_ms = end_ms - joined_ms
        return max(0, join_ms), max(0, sync_ms)


WaitsByMember = Mapping[str, tuple[int, int]]
"""The waits for each member in milliseconds, by member id: in the join phase, and in the sync phase."""
