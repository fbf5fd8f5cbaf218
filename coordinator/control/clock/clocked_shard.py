"""Intercepts the calls of a shard with clocked groups: each call of one group gets the time of that group.

The deadlines of an outcome are in group time. The interceptor converts them to the time of the process, or drops
them while the clock of the group is frozen. The shard keeps them, and returns them again for `ShiftDeadlines` when
the clock runs on. Heartbeats keep their fast path, at the time of the group.
"""

from typing import Any

from coordinator.control.clock.group_time import GroupTimeTable
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import GroupTimerKey, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator


class ClockedShard(ShardDecorator):
    """Passes the calls of groups to a shard, each with the time of its group."""

    __slots__ = ("_times",)

    def __init__(self, inner: GroupShard, times: GroupTimeTable) -> None:
        super().__init__(inner)
        self._times = times
        self.try_heartbeat = self._beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Handle a request at the time of its group. Requests of several groups do not depend on the time."""
        group_id = getattr(request, "group_id", None)
        if group_id is None or self._times.find_time(group_id) is None:
            return self._mapped(self.inner.handle(request, context, now), now)
        outcome = self._mapped(self.inner.handle(request, context, self._times.group_now(group_id, now)), now)
        member_id = getattr(request, "member_id", "")
        members = self.list_classic_members(group_id)
        if members is None:
            self._times.keep_only_members(group_id, set())
        elif member_id in members.joined and context.connection_id:
            self._times.record_heard(group_id, member_id, now.monotonic_ms)
            self._times.prune_heard(group_id, members.joined, members.pending)
        return outcome

    def _beat(self, request: Any, context: Context, monotonic_ms: int) -> object | None:
        time = self._times.find_time(request.group_id)
        if time is None:
            return self.inner.try_heartbeat(request, context, monotonic_ms)
        # The shard needs only the monotonic time.
        response = self.inner.try_heartbeat(
            request, context, time.group_now(Now(monotonic_ms, 0)).monotonic_ms
        )
        if response is not None and self.list_classic_members(request.group_id) is not None:
            self._times.record_heard(request.group_id, request.member_id, monotonic_ms)
        return response

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Fire a timer at the time of its group; a timer of the shard at the time of each group."""
        at = self._times.group_now(key.group_id, now) if key.group_id else now
        return self._mapped(self.inner.fire_timer(key, at, self._times.group_now), now)

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Finish a load, with each group at its own time."""
        return self._mapped(self.inner.on_loaded(now, self._times.group_now), now)

    def _mapped(self, outcome: Outcome, now: Now) -> Outcome:
        """Return the outcome with deadlines in the time of the process."""

        def convert(key: GroupTimerKey, deadline_ms: int) -> int | None:
            time = self._times.find_time(key.group_id) if key.group_id else None
            return deadline_ms if time is None else time.to_process_ms(deadline_ms, now)

        outcome.convert_deadlines(convert)
        return outcome
