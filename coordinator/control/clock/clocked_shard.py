"""Stands in front of a shard while some group of it has a clock of its own, and gives it that group's time.

What goes in is about one group: it is put to the shard at the time of that group. What comes out are deadlines in
that time: they become the process's, or are kept back while the clock stands still. The shard knows them all the
same, and tells them again (`ShiftDeadlines`) when the clock goes on. Heartbeats stay as quick, at the time of
the group.
"""

from typing import Any

from coordinator.control.clock.group_time import GroupTimeTable
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import GroupTimerKey, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator


class ClockedShard(ShardDecorator):
    __slots__ = ("_times",)

    def __init__(self, inner: GroupShard, times: GroupTimeTable) -> None:
        super().__init__(inner)
        self._times = times
        self.try_heartbeat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """What is about several groups does not depend on the time."""
        group_id = getattr(request, "group_id", None)
        if group_id is None or self._times.find_time(group_id) is None:
            return self._mapped(self.inner.handle(request, context, now), now)
        outcome = self._mapped(self.inner.handle(request, context, self._times.group_now(group_id, now)), now)
        member_id = getattr(request, "member_id", "")
        group = self._groups.find_typed_group(ClassicGroup, group_id)
        if group is None:
            self._times.keep_only_members(group_id, set())
        elif member_id in group.members and context.connection_id:
            self._times.record_heard(group_id, member_id, now.monotonic_ms)
            self._times.prune_heard(group_id, group.members, group.pending_members)
        return outcome

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        time = self._times.find_time(request.group_id)
        if time is None:
            return self.inner.try_heartbeat(request, context, monotonic_ms)
        # The shard needs the monotonic time alone.
        response = self.inner.try_heartbeat(
            request, context, time.group_now(Now(monotonic_ms, 0)).monotonic_ms
        )
        if response is not None and self._groups.find_typed_group(ClassicGroup, request.group_id) is not None:
            self._times.record_heard(request.group_id, request.member_id, monotonic_ms)
        return response

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Retention looks at each group at its own time."""
        at = self._times.group_now(key.group_id, now) if key.group_id else now
        return self._mapped(self.inner.fire_timer(key, at, self._times.group_now), now)

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Each group begins at its own time."""
        return self._mapped(self.inner.on_loaded(now, self._times.group_now), now)

    def _mapped(self, outcome: Outcome, now: Now) -> Outcome:
        """The outcome with deadlines in the time of the process."""
        timers: dict[Any, int | None] = {}
        for key, deadline_ms in outcome.timers.items():
            time = self._times.find_time(key.group_id) if key.group_id else None
            if time is not None and deadline_ms is not None:
                deadline_ms = time.to_process_ms(deadline_ms, now)
            timers[key] = deadline_ms
        outcome.timers = timers
        return outcome
