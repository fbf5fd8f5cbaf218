"""Advances the clock of a group by a duration or to the next deadline, without expiring members that live.

The clock is frozen during the call; a running clock runs on afterwards. Time passes deadline by deadline.
Before a deadline passes, each living member gets a full session from that time, because it would have sent
heartbeats. If the deadline would end a wait for a living member, the call waits for that member in real time.
If the member does not act, the clock stops there.

Scans over all groups have checkpoints. The clock is frozen meanwhile, so no deadline passes at a checkpoint.
Requests may change groups there, so each step reads the groups that it works on again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final

from msgspec import to_builtins

from coordinator.broker.group_event_log import EventRank, GroupEventBus
from coordinator.broker.services import Services
from coordinator.control.clock.clock_models import ClockAdvanceResult, FiredDeadline
from coordinator.control.clock.clock_registry import ClockRegistry
from coordinator.control.clock.disconnected_members import SilentMembers
from coordinator.control.clock.event_capture import capture_events, summarize_events
from coordinator.control.clock.group_time import GroupTime
from coordinator.control.clock.pending_deadlines import (
    REPORT,
    SESSION_TIMERS,
    GroupDeadline,
    PendingDeadlines,
)
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import format_duration, printable
from coordinator.core.time_budget import TimeBudget
from coordinator.group.event_details import AwaitedRequest, MemberName
from coordinator.group.group_config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_requests import (
    ExpiredOffsets,
    ExpireOffsets,
    ExtendSessions,
    GroupTimerKey,
    GroupTimerKind,
)
from coordinator.group.group_view import GroupView
from coordinator.runtime.partition_lifecycle import PartitionState

MAX_FIRED: Final = 10_000
"""The maximum number of deadlines that pass in one call."""
MAX_WAIT_MS: Final = 600_000
"""The maximum real time that one call waits for members, in milliseconds."""
MAX_NAMED: Final = 20
POLL_INTERVAL_S: Final = 0.02
"""The interval of checks whether an awaited member has acted. Not every request of a member causes an event."""
_HEARTBEAT: Final = "Heartbeat"
_MISSING_ACTIONS: Final = {
    "join": "rejoined",
    "sync": "fetched the assignment",
    "pending": "joined with the id it was given",
    "session": "sent a heartbeat since it connected anew",
    "revocation": "given up its partitions",
    "rejoin": "rejoined",
    "resync": "fetched the assignment",
}
"""The pending action of a member when the clock stops at a deadline."""
_AWAITED_REQUESTS: Final = {
    "revocation": "ConsumerGroupHeartbeat",
    "rejoin": AwaitedRequest.JOIN.value,
    "resync": AwaitedRequest.SYNC.value,
}
"""The timers of single members of consumer groups, with the request that a live member has yet to send."""


class ClockAdvance:
    """One call that moves a frozen clock."""

    def __init__(
        self,
        clocks: ClockRegistry,
        group_client: InternalGroupClient,
        events: GroupEventBus,
        group_id: str | None,
        time: GroupTime,
        silent_members: SilentMembers,
        settle_ms: int,
    ) -> None:
        """Create an advance of a clock. `settle_ms` is the time that a live member gets, in real milliseconds."""
        self.fired: list[FiredDeadline] = []
        self.waited_ms = 0
        self._clocks = clocks
        self._group_client = group_client
        self._events = events
        self._group_id = group_id
        self._time = time
        self._silent_members = silent_members
        self._settle_ms = settle_ms
        self._budget = TimeBudget(clocks.run_queue)
        self._passed = 0
        self._deadlines = PendingDeadlines(
            partial(clocks.list_governed, group_id),
            partial(clocks.governs, group_id),
            self._find_view,
            lambda name: clocks.runtime.find_partition(name).machine,
            silent_members,
        )

    @property
    def _now_ms(self) -> int:
        return self._time.group_now(self._clocks.process_now()).monotonic_ms

    # Advance

    async def advance_to(self, target_ms: int) -> None:
        """Advance to a monotonic time of the clock, in milliseconds. Raises Problem (clock-stopped, not-possible,
        loading)."""
        await self._check_deadline_count(target_ms)
        async with self._tracking_events():
            while (nearest := await self._await_nearest(target_ms)) is not None:
                await self._pass_deadline(nearest)
            self._time.advance_to(target_ms)

    async def advance_to_next_deadline(self) -> None:
        """Advance to the next deadline with an effect, if there is one. Raises Problem as `advance_to` does."""
        async with self._tracking_events():
            while not self.fired and (nearest := await self._await_nearest(None)) is not None:
                await self._pass_deadline(nearest)

    async def expire_offsets(self) -> None:
        """Run the offset retention of each group, as its timer would have done meanwhile."""
        for group_id in self._clocks.list_governed(self._group_id):
            if self._clocks.find_group(group_id) is None:
                continue
            with capture_events(self._events, group_id) as capture:
                expired = await self._group_client.request(group_id, ExpireOffsets(group_id), 0)
            assert isinstance(expired, ExpiredOffsets)
            if capture.events:
                key = GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS, group_id)
                self._record_fired(GroupDeadline(self._now_ms, key, "retention", None), capture.events)

    @asynccontextmanager
    async def _tracking_events(self) -> AsyncIterator[None]:
        """Examine groups again after their events. At the end, extend the sessions of all living members.

        The clock is frozen until this ends, so no session ends at a checkpoint before it is extended.
        """
        self._events.subscribe(EventRank.COMMANDS, self._deadlines.on_event)
        try:
            yield
        finally:
            self._events.unsubscribe(self._deadlines.on_event)
            for group_id in self._clocks.list_governed(self._group_id):
                view = self._clocks.find_group(group_id)
                if view is not None and self._clocks.governs(self._group_id, group_id):
                    self._silent_members.classify_members(view)
                    self._keep_alive(view, self._now_ms)
                await self._budget.checkpoint()

    # Next deadline

    def _find_view(self, group_id: str) -> GroupView | None:
        if self._group_id is not None:
            self._group_client.find_partition(group_id)
        return self._clocks.find_group(group_id)

    async def _await_nearest(self, target_ms: int | None) -> tuple[GroupDeadline, GroupView] | None:
        """Return the next deadline up to `target_ms`, once no living member is awaited at it any more.

        The sessions of living members in all other groups last longer than the deadline then. The caller uses the
        result before it awaits something.
        """
        blocked: tuple[GroupTimerKey, int] | None = None
        since_ms = clock.monotonic_ms()
        while True:
            nearest = await self._deadlines.find_nearest(target_ms, self._budget)
            if nearest is None:
                return None
            deadline, view = nearest
            awaited = self._list_awaited(deadline, view)
            if not awaited:
                other = self._deadlines.take_session_ending_by(max(deadline.at_ms, self._now_ms))
                if other is None:
                    return nearest
                self._keep_alive(other, max(deadline.at_ms, self._now_ms))
                self._deadlines.refresh_group(other.group_id)
                await self._budget.checkpoint()
                continue
            now_ms = clock.monotonic_ms()
            if blocked != (deadline.key, deadline.at_ms):
                blocked, since_ms = (deadline.key, deadline.at_ms), now_ms
            if now_ms - since_ms >= self._settle_ms or self.waited_ms >= MAX_WAIT_MS:
                raise self._stopped_problem(deadline, view, awaited)
            await asyncio.sleep(POLL_INTERVAL_S)
            self.waited_ms += clock.monotonic_ms() - now_ms

    def _list_awaited(self, deadline: GroupDeadline, view: GroupView) -> list[tuple[MemberName, str]]:
        """Return the live members that a deadline would expire, with their pending action."""
        member_id, living = deadline.key.member_id, self._silent_members.find_live_members(view)
        if deadline.timer == "session" and self._silent_members.is_uncertain(view.group_id, member_id):
            names = [member.name for member in view.members if member.name.member_id == member_id]
            return [(name, _HEARTBEAT) for name in names]
        if deadline.timer == "pending" and member_id in living:
            names = [pending.name for pending in view.pending if pending.name.member_id == member_id]
            return [(name, AwaitedRequest.FIRST_JOIN) for name in names]
        if deadline.timer in _AWAITED_REQUESTS and member_id in living:
            names = [member.name for member in view.members if member.name.member_id == member_id]
            return [(name, _AWAITED_REQUESTS[deadline.timer]) for name in names]
        if deadline.timer not in ("join", "sync") or view.rebalance is None:
            return []
        return [
            (one.member, one.request.value)
            for one in view.rebalance.awaited
            if one.member.member_id in living and one.request is not AwaitedRequest.FIRST_JOIN
        ]

    # At a deadline

    async def _pass_deadline(self, nearest: tuple[GroupDeadline, GroupView]) -> None:
        deadline, view = nearest
        partition = self._group_client.find_partition(view.group_id)
        if partition.state is not PartitionState.OWNED:
            detail = f"{partition.name} is read-only now: no deadline can end in {printable(view.group_id)}."
            raise Problem(ProblemKind.LOADING, f"{partition.name} is {partition.state.value}", detail)
        if self._passed >= MAX_FIRED:
            raise self._too_many_problem(f"{MAX_FIRED} deadlines have fired before the requested time")
        self._passed += 1
        at_ms = max(deadline.at_ms, self._now_ms)
        self._keep_alive(view, at_ms)
        self._time.advance_to(at_ms)
        with capture_events(self._events, view.group_id) as capture:
            self._clocks.runtime.fire_timer(partition, deadline.key)
        if deadline.timer != REPORT:
            self._record_fired(deadline, capture.events)
        # Before the clock moves on, the records of the timer are durable, and listeners have reacted to its events
        # by work for the next iteration, such as a failover. So a checkpoint of a budget is not enough.
        await self._group_client.request(view.group_id, ExtendSessions(view.group_id, (), 0), 0)
        await asyncio.sleep(0)

    def _keep_alive(self, view: GroupView, at_ms: int) -> None:
        living = self._silent_members.find_live_members(view)
        by_timeout: dict[int, list[str]] = {}
        for member in view.members:
            if member.name.member_id in living:
                timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
                by_timeout.setdefault(timeout_ms, []).append(member.name.member_id)
        partition = self._clocks.runtime.find_partition(view.group_id)
        for timeout_ms, ids in by_timeout.items():
            self._group_client.request_now(partition, ExtendSessions(view.group_id, ids, at_ms + timeout_ms))

    def _record_fired(self, deadline: GroupDeadline, events: Sequence[GroupEvent]) -> None:
        self.fired.append(
            FiredDeadline(
                timer=deadline.timer,
                group_id=deadline.key.group_id,
                member=deadline.client_id,
                member_id=deadline.key.member_id or None,
                at_ms=self._time.group_now(self._clocks.process_now()).wall_ms,
                events=summarize_events(events),
            )
        )

    # Problems

    async def _check_deadline_count(self, target_ms: int) -> None:
        """Refuse an advance past more than `MAX_FIRED` deadlines before any of them passes."""
        count = 0
        for group_id in self._clocks.list_governed(self._group_id):
            view = self._find_view(group_id)
            machine = self._clocks.runtime.find_partition(group_id).machine
            if view is not None and machine is not None:
                self._silent_members.classify_members(view)
                living = self._silent_members.find_live_members(view)
                due = [key for key, at_ms in machine.list_deadlines(group_id).items() if at_ms <= target_ms]
                count += sum(key.kind not in SESSION_TIMERS or key.member_id not in living for key in due)
            await self._budget.checkpoint()
        if count > MAX_FIRED:
            raise self._too_many_problem(f"{count} deadlines would fire")

    def _too_many_problem(self, what: str) -> Problem:
        detail = f"{what}, but one call fires at most {MAX_FIRED}: advance in smaller steps."
        return Problem(ProblemKind.NOT_POSSIBLE, "too many deadlines", detail, self.build_progress_fields())

    def _stopped_problem(
        self, deadline: GroupDeadline, view: GroupView, awaited: Sequence[tuple[MemberName, str]]
    ) -> Problem:
        group, timer, many = printable(view.group_id), deadline.timer, len(awaited) > 1
        left_ms = max(0, deadline.at_ms - self._now_ms)
        who = ", ".join(
            f"{printable(name.client_id)} (its {request})" for name, request in awaited[:MAX_NAMED]
        )
        more = f" and {len(awaited) - MAX_NAMED} more" if len(awaited) > MAX_NAMED else ""
        what = _MISSING_ACTIONS[timer]
        are, have, them = ("are", "have", "them") if many else ("is", "has", "it")
        detail = (
            f"The clock of {group} has stopped {left_ms} ms before its {timer} deadline: {who}{more} {are} "
            f"connected and {have} not {what} within {self._settle_ms} ms. Name {them} in `silent` to have {them} "
            "evicted, or allow a longer `settle`."
        )
        named = [
            {"member_id": name.member_id, "client_id": name.client_id, "request": request}
            for name, request in awaited[:MAX_NAMED]
        ]
        fields = {"group_id": view.group_id, "timer": timer, "awaited": named, **self.build_progress_fields()}
        return Problem(ProblemKind.CLOCK_STOPPED, f"the clock of {group} has stopped", detail, fields)

    def build_progress_fields(self) -> dict[str, object]:
        """Return the fields that describe an advance that stopped early."""
        return {"fired": to_builtins(self.fired), "waited_ms": self.waited_ms}


class ClockCommands:
    """Advances clocks. `group_id` is None for the default clock, which all groups without an own clock use."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_client: InternalGroupClient,
        clocks: ClockRegistry,
        removals: GroupRemovals,
    ) -> None:
        self._retention_interval_ms = services.group_config.offsets_retention_check_interval_ms
        self._events = services.group_events
        self._actions = actions
        self._group_client = group_client
        self._clocks = clocks
        self._removals = removals

    async def advance_clock(
        self,
        group_id: str | None,
        by_ms: int,
        *,
        silent: Sequence[str] | None,
        settle_ms: int,
        description: str,
        actor: str | None,
    ) -> ClockAdvanceResult:
        """Advance a clock.

        Args:
            group_id: The group, or None for the default clock.
            by_ms: The duration, milliseconds.
            silent: Members to expire, or None for the disconnected ones.
            settle_ms: The time that a live member gets to answer, in real milliseconds.
            description: The name of the action in the ledger.
            actor: The name of the operator.

        Raises:
            Problem: clock-stopped, no-such-group, no-such-member, ambiguous-member, not-possible, too-many,
                loading.
        """
        async with self._frozen_clock(group_id, silent, settle_ms) as (advance, time, silent_members):
            self._actions.record_action("clock", description, group_id, actor)
            with self._adding_progress(advance, time):
                await advance.advance_to(self._now_ms(time) + by_ms)
                if by_ms >= self._retention_interval_ms:
                    operation = f"advanced its clock by {format_duration(by_ms)}"
                    with self._removals.attributed_to(group_id, operation, actor):
                        await advance.expire_offsets()
        return self._build_result(group_id, by_ms, advance, silent_members)

    async def step_clock(
        self,
        group_id: str | None,
        *,
        silent: Sequence[str] | None,
        settle_ms: int,
        actor: str | None,
    ) -> ClockAdvanceResult:
        """Advance a clock to the next deadline, if there is one. Arguments and errors are those of
        `advance_clock`."""
        async with self._frozen_clock(group_id, silent, settle_ms) as (advance, time, silent_members):
            self._actions.record_action("clock", "step", group_id, actor)
            before_ms = self._now_ms(time)
            with self._adding_progress(advance, time):
                await advance.advance_to_next_deadline()
            by_ms = self._now_ms(time) - before_ms
        return self._build_result(group_id, by_ms, advance, silent_members)

    @asynccontextmanager
    async def _frozen_clock(
        self, group_id: str | None, silent: Sequence[str] | None, settle_ms: int
    ) -> AsyncIterator[tuple[ClockAdvance, GroupTime, SilentMembers]]:
        """Freeze a clock for the block. A clock that ran before continues afterwards."""
        clocks = self._clocks
        async with clocks.locks(group_id):
            self._check_group(group_id)
            silent_members = SilentMembers(silent, clocks.disconnected_members)
            if silent:
                views = filter(None, map(clocks.find_group, clocks.list_governed(group_id)))
                silent_members.check_names(list(views))
            time = clocks.get_or_create_time(group_id)
            ran = not time.is_frozen
            clocks.freeze(group_id, time)
            try:
                yield (
                    ClockAdvance(
                        clocks, self._group_client, self._events, group_id, time, silent_members, settle_ms
                    ),
                    time,
                    silent_members,
                )
            finally:
                if ran:
                    clocks.unfreeze(group_id, time)

    @contextmanager
    def _adding_progress(self, advance: ClockAdvance, time: GroupTime) -> Iterator[None]:
        """Add the progress so far to a Problem, if a partition was unloaded during the advance."""
        before_ms = self._now_ms(time)
        try:
            yield
        except Problem as problem:
            moved_ms = self._now_ms(time) - before_ms
            if problem.kind is not ProblemKind.LOADING or not moved_ms:
                raise
            detail = f"{problem.detail} {format_duration(moved_ms)} have passed by then."
            fields = {**problem.fields, **advance.build_progress_fields(), "moved_ms": moved_ms}
            raise Problem(problem.kind, problem.title, detail, fields) from problem

    def _check_group(self, group_id: str | None) -> None:
        """Check that a group or its clock exists. A clock may exist before its group. Raises Problem
        (no-such-group, loading)."""
        if group_id is not None:
            self._group_client.find_partition(group_id)
            if self._clocks.find_group(group_id) is None and group_id not in self._clocks.times.by_group:
                raise self._removals.no_such_group(group_id)

    def _now_ms(self, time: GroupTime) -> int:
        return time.group_now(self._clocks.process_now()).monotonic_ms

    def _build_result(
        self, group_id: str | None, by_ms: int, advance: ClockAdvance, silent_members: SilentMembers
    ) -> ClockAdvanceResult:
        return ClockAdvanceResult(
            by_ms=by_ms,
            fired=advance.fired,
            silent=silent_members.client_ids,
            waited_ms=advance.waited_ms,
            clock=self._clocks.describe_clock(group_id),
        )
