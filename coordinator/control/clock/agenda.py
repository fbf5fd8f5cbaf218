"""What time alone will bring about next, in all groups that go by a clock.

A group is looked at once in the beginning and then when something has happened in it, so that the deadlines of one
group cost the others nothing. Heartbeats make no event, and only move deadlines away: what comes first is looked at
once more before it counts.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from coordinator.control.clock.deadline import Deadline, deadlines_of
from coordinator.control.clock.silence import Silence
from coordinator.group.events import Event
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now


class Soonest:
    """One time for each of many groups, and which comes first."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        """With some that do not hold any more."""

    def put(self, group_id: str, at_ms: int | None) -> None:
        """Takes the time of a group in the place of the one before; None: it has none."""
        if at_ms is None:
            self._times.pop(group_id, None)
        elif self._times.get(group_id) != at_ms:
            self._times[group_id] = at_ms
            heappush(self._heap, (at_ms, group_id))

    def first(self, until_ms: int | None) -> str | None:
        """The group whose time comes first, and not after `until_ms`."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if not self._heap or (until_ms is not None and self._heap[0][0] > until_ms):
            return None
        return self._heap[0][1]


class Agenda:
    """See the top of this file. `happened` is to be told of what happens in groups as long as this is in use."""

    def __init__(
        self,
        groups: Callable[[], list[str]],
        governs: Callable[[str], bool],
        view: Callable[[str], GroupView | None],
        machine: Callable[[str], Shard | None],
        silence: Silence,
    ) -> None:
        """In: the groups that go by the clock, and whether one does; one of them as it is now; who has its
        deadlines; who lives."""
        self._groups = groups
        self._governs = governs
        self._view = view
        self._machine = machine
        self._silence = silence
        self._due = Soonest()
        self._sessions = Soonest()
        """When the first session of those who live ends."""
        self._changed: set[str] = set()
        self._is_whole = False
        """Whether every group was looked at since the last deadline was found."""

    def happened(self, _: int, event: Event, __: int, ___: Now) -> None:
        """See `EventListener`."""
        self._changed.add(event.group_id)

    def nearest(self, target_ms: int | None) -> tuple[Deadline, GroupView] | None:
        """The earliest deadline until `target_ms`, the sessions of those aside who live."""
        self._look_at_changed()
        while True:
            group_id = self._due.first(target_ms)
            if group_id is not None:
                found = self._look(group_id)
                if found is not None and self._due.first(target_ms) == group_id:
                    self._is_whole = False
                    return found
            elif self._is_whole:
                return None
            else:
                self._is_whole = True
                for name in self._groups():
                    self._look(name)

    def ends_by(self, at_ms: int) -> list[GroupView]:
        """The groups in which a session of somebody who lives would end until then. Each is told once; it is looked
        at again when its members were kept alive."""
        self._look_at_changed()
        found = []
        while (group_id := self._sessions.first(at_ms)) is not None:
            self._sessions.put(group_id, None)
            view = self._view(group_id)
            if view is not None:
                found.append(view)
        return found

    def look_again(self, group_id: str) -> None:
        """Its members were kept alive."""
        self._look(group_id)

    def _look_at_changed(self) -> None:
        changed, self._changed = self._changed, set()
        for group_id in filter(self._governs, changed):
            self._look(group_id)

    def _look(self, group_id: str) -> tuple[Deadline, GroupView] | None:
        """The first deadline of a group that passes."""
        view, machine = self._view(group_id), self._machine(group_id)
        if view is None or machine is None:
            self._due.put(group_id, None)
            self._sessions.put(group_id, None)
            return None
        self._silence.look(view)
        living = self._silence.living(view)
        found: Deadline | None = None
        session_ms: int | None = None
        for deadline in deadlines_of(view, machine.deadlines(group_id)):
            if deadline.timer == "session" and deadline.key.member_id in living:
                session_ms = deadline.at_ms if session_ms is None else session_ms
            elif found is None:
                found = deadline
        self._due.put(group_id, None if found is None else found.at_ms)
        self._sessions.put(group_id, session_ms)
        return None if found is None else (found, view)
