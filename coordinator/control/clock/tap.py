"""Stands in front of a shard while some group of it has a clock of its own, and gives it that group's time.

What goes in is about one group: it is put to the shard at the time of that group. What comes out are deadlines in
that time: they become the process's, or are kept back while the clock stands still. The shard knows them all the
same, and tells them again (`MoveTimes`) when the clock goes on. Heartbeats stay as quick, at the time of the group.
"""

from typing import Any

from coordinator.control.clock.group_times import GroupTimes
from coordinator.group.group import NowOf
from coordinator.group.in_front import InFront
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context, Now, Outcome


class Tap(InFront):
    """See the top of this file."""

    __slots__ = ("_times",)

    def __init__(self, behind: Shard, times: GroupTimes) -> None:
        super().__init__(behind)
        self._times = times
        self.beat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`. What is about several groups does not depend on the time."""
        group_id = getattr(request, "group_id", None)
        if group_id is None or self._times.of(group_id) is None:
            return self._mapped(self.behind.handle(request, context, now), now)
        outcome = self._mapped(self.behind.handle(request, context, self._times.at(group_id, now)), now)
        member_id = getattr(request, "member_id", "")
        group = self._groups.find_classic(group_id)
        if group is None:
            self._times.forget_others(group_id, set())
        elif member_id in group.members and context.connection_id:
            self._times.hear(group_id, member_id, now.monotonic_ms)
            self._times.forget_gone(group_id, group.members, group.pending_members)
        return outcome

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        time = self._times.of(request.group_id)
        if time is None:
            return self.behind.beat(request, context, monotonic_ms)
        # The shard needs the monotonic time alone.
        response = self.behind.beat(request, context, time.at(Now(monotonic_ms, 0)).monotonic_ms)
        if response is not None and self._groups.find_classic(request.group_id) is not None:
            self._times.hear(request.group_id, request.member_id, monotonic_ms)
        return response

    def fire(self, key: TimerKey, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`. Retention looks at each group at its own time."""
        at = self._times.at(key.group_id, now) if key.group_id else now
        return self._mapped(self.behind.fire(key, at, self._times.at), now)

    def loaded(self, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`. Each group begins at its own time."""
        return self._mapped(self.behind.loaded(now, self._times.at), now)

    def _mapped(self, outcome: Outcome, now: Now) -> Outcome:
        """The outcome with deadlines in the time of the process."""
        timers: dict[Any, int | None] = {}
        for key, deadline_ms in outcome.timers.items():
            time = self._times.of(key.group_id) if key.group_id else None
            if time is not None and deadline_ms is not None:
                deadline_ms = time.process_ms(deadline_ms, now)
            timers[key] = deadline_ms
        outcome.timers = timers
        return outcome
