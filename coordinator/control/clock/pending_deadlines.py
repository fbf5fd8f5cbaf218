"""Pending deadlines of all groups that use a clock, and the earliest of them, in milliseconds of monotonic
group time.

A group is examined once at the beginning and then after an event in it, so the deadlines of one group cost
the others nothing. A heartbeat causes no event and only postpones deadlines. The earliest deadline is
therefore examined once more before it counts.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from coordinator.control.clock.disconnected_members import SilentMembers
from coordinator.core.outcome import Now
from coordinator.core.time_budget import Budget
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import GroupView

REPORT: Final = "report"
_GROUP_TIMERS: Final = {
    GroupTimerKind.JOIN: "join",
    GroupTimerKind.SYNC: "sync",
    GroupTimerKind.REPORT: REPORT,
}
_MEMBER_TIMERS: Final = {
    GroupTimerKind.HEARTBEAT: "session",
    GroupTimerKind.CONSUMER_SESSION: "session",
    GroupTimerKind.CONSUMER_REBALANCE: "revocation",
    GroupTimerKind.CLASSIC_MEMBER_JOIN: "rejoin",
    GroupTimerKind.CLASSIC_MEMBER_SYNC: "resync",
}
SESSION_TIMERS: Final = (GroupTimerKind.HEARTBEAT, GroupTimerKind.CONSUMER_SESSION)
"""The timers that a live member keeps extending."""


class GroupDeadline(NamedTuple):
    """A deadline of a group. `at_ms` is monotonic group time. A "report" deadline only writes a log line."""

    at_ms: int
    key: GroupTimerKey
    timer: str
    client_id: str | None
    """The client of a session or of a pending join; None for a deadline of the group."""


def list_deadlines(view: GroupView, deadlines: dict[GroupTimerKey, int]) -> list[GroupDeadline]:
    """Return the deadlines of a group, the earliest first."""
    pending = {one.name.member_id: one.name.client_id for one in view.pending}
    clients = {member.name.member_id: member.name.client_id for member in view.members}
    found = []
    for key, at_ms in deadlines.items():
        if key.kind in _GROUP_TIMERS:
            found.append(GroupDeadline(at_ms, key, _GROUP_TIMERS[key.kind], None))
        elif key.member_id in pending:
            found.append(GroupDeadline(at_ms, key, "pending", pending[key.member_id]))
        else:
            found.append(GroupDeadline(at_ms, key, _MEMBER_TIMERS[key.kind], clients[key.member_id]))
    return sorted(found, key=lambda deadline: deadline.at_ms)


class DeadlineHeap:
    """The earliest deadline of each group, and the first of them."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        """May contain outdated entries."""

    def set_deadline(self, group_id: str, at_ms: int | None) -> None:
        """Set or replace the deadline of a group; None removes it."""
        if at_ms is None:
            self._times.pop(group_id, None)
        elif self._times.get(group_id) != at_ms:
            self._times[group_id] = at_ms
            heappush(self._heap, (at_ms, group_id))

    def find_first(self, until_ms: int | None) -> str | None:
        """Return the group with the first deadline that is not after `until_ms`, or None."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if not self._heap or (until_ms is not None and self._heap[0][0] > until_ms):
            return None
        return self._heap[0][1]


class PendingDeadlines:
    """Finds the earliest deadline. Call `on_event` for each group event as long as this is in use."""

    def __init__(
        self,
        list_groups: Callable[[], list[str]],
        governs: Callable[[str], bool],
        find_view: Callable[[str], GroupView | None],
        find_machine: Callable[[str], GroupShard | None],
        silent_members: SilentMembers,
    ) -> None:
        """Create the deadlines of a clock.

        Args:
            list_groups: Returns the groups of the clock.
            governs: Returns whether a group uses the clock.
            find_view: Returns the view of a group.
            find_machine: Returns the machine with the deadlines of a group.
            silent_members: The members that may expire.
        """
        self._list_groups = list_groups
        self._governs = governs
        self._find_view = find_view
        self._find_machine = find_machine
        self._silent_members = silent_members
        self._due = DeadlineHeap()
        self._sessions = DeadlineHeap()
        """The end of the first session of a live member, by group."""
        self._changed: set[str] = set()
        self._is_complete = False
        """Whether all groups have been examined since the last deadline was found."""

    def on_event(self, _: int, event: GroupEvent, __: int, ___: Now) -> None:
        self._changed.add(event.group_id)

    async def find_nearest(
        self, target_ms: int | None, budget: Budget
    ) -> tuple[GroupDeadline, GroupView] | None:
        """Return the earliest deadline until `target_ms`, except sessions of members that live, and its group.

        The result is of the time after the last checkpoint: groups that change at a checkpoint are examined again.
        """
        while True:
            self._refresh_changed()
            group_id = self._due.find_first(target_ms)
            if group_id is not None:
                found = self._refresh(group_id)
                if found is not None and self._due.find_first(target_ms) == group_id:
                    self._is_complete = False
                    return found
            elif self._is_complete:
                return None
            else:
                self._is_complete = True
                for name in self._list_groups():
                    self._refresh(name)
                    await budget.checkpoint()

    def take_session_ending_by(self, at_ms: int) -> GroupView | None:
        """Return a group in which the session of a living member would end until `at_ms`; None without one.

        Each group is returned once. Call `refresh_group` after the sessions of its members were extended.
        """
        self._refresh_changed()
        while (group_id := self._sessions.find_first(at_ms)) is not None:
            self._sessions.set_deadline(group_id, None)
            view = self._find_view(group_id)
            if view is not None:
                return view
        return None

    def refresh_group(self, group_id: str) -> None:
        """Examine a group again after the sessions of its members were extended."""
        self._refresh(group_id)

    def _refresh_changed(self) -> None:
        changed, self._changed = self._changed, set()
        for group_id in filter(self._governs, changed):
            self._refresh(group_id)

    def _refresh(self, group_id: str) -> tuple[GroupDeadline, GroupView] | None:
        """Update the deadlines of a group, and return the first one other than a session of a live member."""
        view, machine = self._find_view(group_id), self._find_machine(group_id)
        if view is None or machine is None:
            self._due.set_deadline(group_id, None)
            self._sessions.set_deadline(group_id, None)
            return None
        self._silent_members.classify_members(view)
        living = self._silent_members.find_live_members(view)
        found: GroupDeadline | None = None
        session_ms: int | None = None
        for deadline in list_deadlines(view, machine.list_deadlines(group_id)):
            if deadline.timer == "session" and deadline.key.member_id in living:
                session_ms = deadline.at_ms if session_ms is None else session_ms
            elif found is None:
                found = deadline
        self._due.set_deadline(group_id, None if found is None else found.at_ms)
        self._sessions.set_deadline(group_id, session_ms)
        return None if found is None else (found, view)
