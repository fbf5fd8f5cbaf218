"""The clocks of groups: created, frozen, run and removed. A `ClockedShard` intercepts the calls of each
partition that has a group with a clock.

All deadlines of a group are in its own time, so they do not change when its clock is frozen or runs on. When
a group changes to another clock, its deadlines are shifted and keep their remaining time.

Operations on the same clock are serialised. A warning reports a group that was loaded with its last commit in
the future: its clock was ahead and ended with its process, and its offsets expire later by that much.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Hashable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.clock.clock_models import ClockState, NextDeadline
from coordinator.control.clock.clocked_shard import ClockedShard
from coordinator.control.clock.disconnected_members import DisconnectedMemberReaper, DisconnectedMembers
from coordinator.control.clock.group_time import GroupTime, GroupTimeTable
from coordinator.control.clock.pending_deadlines import REPORT, list_deadlines
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_finding import FindingAction, FindingOperation, GroupFinding
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.interceptors import InterceptorRank
from coordinator.core.message_text import format_count, format_duration, printable
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupEvent, GroupLoaded
from coordinator.group.group_requests import ExpireMember, ShiftDeadlines
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import GroupView
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState

_LOG: Final = logging.getLogger("Control")
MAX_CLOCKS: Final = 10_000
"""The maximum number of groups with an own clock."""


class ClockRegistry:
    """The clocks of groups. `group_id` is None for the default clock, which all groups without an own clock
    use."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_client: InternalGroupClient,
        connections: MemberConnections,
    ) -> None:
        self.times = times = GroupTimeTable()
        self.disconnected_members = DisconnectedMembers(services, connections, times)
        self.locks = KeyedLock()
        self.runtime = services.runtime
        self.run_queue = services.run_queue
        self._clock = services.group_clock
        self._events = services.group_events
        self._actions = actions
        self._group_client = group_client
        self._reaper = DisconnectedMemberReaper(
            services.loop,
            self.disconnected_members,
            times,
            self._iterate_expiring,
            self._process_ms,
            self._expire_member,
        )
        self._future_offsets = FutureOffsetWarnings(services, times)
        self._interceptors: dict[int, partial[ClockedShard]] = {}
        """The interceptors of clocked partitions, by partition."""

    # Queries

    def process_now(self) -> Now:
        """Return the current time of the engine, the base of all clocks."""
        return self._clock.now()

    def group_now(self, group_id: str) -> Now:
        """Return the present time of a group."""
        return self.times.group_now(group_id, self.process_now())

    def is_frozen(self, group_id: str) -> bool:
        """Return whether the clock of a group is frozen."""
        time = self.times.find_time(group_id)
        return time is not None and time.is_frozen

    def list_frozen(self) -> Collection[str]:
        """Return the groups whose own clock is frozen. They need not exist."""
        return [group_id for group_id, time in self.times.by_group.items() if time.is_frozen]

    def find_state(self, group_id: str | None) -> ClockState | None:
        """Return the state of the clock of a group, or of the default clock; None if it is the clock of the
        process."""
        time = self.times.default if group_id is None else self.times.find_time(group_id)
        return None if time is None else self.describe_clock(group_id)

    def describe_clock(self, group_id: str | None, process: Now | None = None) -> ClockState:
        """Describe the clock of a group or the default clock, or else that of the process.

        `process` is the time of the description, by default now.
        """
        process = process or self.process_now()
        time = self.times.default if group_id is None else self.times.find_time(group_id)
        is_own = group_id in self.times.by_group
        at = process if time is None else time.group_now(process)
        real_ms = clock.wall_ms()
        return ClockState(
            group_id=group_id,
            clock="process" if time is None else "group" if is_own else "default",
            frozen=time is not None and time.is_frozen,
            except_="gone" if time is not None and time.expires_disconnected else None,
            group_time_ms=at.wall_ms,
            real_time_ms=real_ms,
            ahead_ms=at.wall_ms - process.wall_ms,
            next=None if group_id is None else self._find_next_deadline(group_id, at),
        )

    def find_group(self, group_id: str) -> GroupView | None:
        """Return a group at its own time, or None if it does not exist or is unavailable."""
        machine = self.runtime.find_partition(group_id).machine
        return None if machine is None else machine.view_group(group_id, self.group_now(group_id))

    def list_governed(self, group_id: str | None) -> list[str]:
        """Return the groups that use a clock. With a group id the list has that group, even if it does not
        exist."""
        if group_id is not None:
            return [group_id]
        return [
            name
            for shard in self._iterate_shards()
            for name in shard.list_group_ids()
            if name not in self.times.by_group
        ]

    def governs(self, group_id: str | None, name: str) -> bool:
        """Return whether the group `name`, if it exists, uses a clock."""
        return name == group_id if group_id is not None else name not in self.times.by_group

    def find_frozen_waits(self, view: GroupView) -> list[GroupFinding]:
        """Return findings about a frozen group that waits for time to pass or for disconnected members."""
        if view.rebalance is None or not self.is_frozen(view.group_id):
            return []
        time, name, found = self.times.find_time(view.group_id), printable(view.group_id), []
        if view.rebalance.is_initial:
            found.append(
                GroupFinding(
                    kind="frozen_delay",
                    sentence=f"The clock of {name} is frozen in its initial delay",
                    blocks=True,
                    hint="Advance the clock to its next deadline to end the delay",
                    action=FindingAction(
                        operation=FindingOperation.STEP_CLOCK,
                        label="Step the clock",
                        arguments={"group": view.group_id},
                    ),
                )
            )
        disconnected = (
            set()
            if time is not None and time.expires_disconnected
            else self.disconnected_members.find_disconnected(view)
            - self.disconnected_members.find_possibly_reconnected(view)
        )
        for awaited in view.rebalance.awaited:
            member_id, client = awaited.member.member_id, printable(awaited.member.client_id)
            if member_id in disconnected:
                found.append(
                    GroupFinding(
                        kind="frozen_gone",
                        sentence=(
                            f"The clock of {name} is frozen, and the group waits for {awaited.request.value} of "
                            f"{client}, which is disconnected and cannot expire"
                        ),
                        blocks=True,
                        members=[member_id],
                        hint=f"Expire {client}, or freeze the clock except for members that are gone",
                        action=FindingAction(
                            operation=FindingOperation.EXPIRE_MEMBER,
                            label=f"Expire {client}",
                            arguments={"group": view.group_id, "member": member_id},
                        ),
                    )
                )
        return found

    # Changes

    async def set_clock(
        self, group_id: str | None, *, frozen: bool, expires_disconnected: bool
    ) -> ClockState:
        """Freeze or start a clock. Raises Problem (too-many)."""
        async with self.locks(group_id):
            # One time for all steps: a clock that was only frozen must not lag behind by the duration of this
            # call.
            exists, process = self.find_state(group_id) is not None, self.process_now()
            if frozen or exists:
                time = self.get_or_create_time(group_id)
                if frozen:
                    self.freeze(group_id, time, process)
                    time.expires_disconnected = expires_disconnected
                    if expires_disconnected:
                        self._reaper.start()
                else:
                    self.unfreeze(group_id, time, process)
            return self.describe_clock(group_id, process)

    def get_or_create_time(self, group_id: str | None) -> GroupTime:
        """Return the clock of a group or the default clock. Create a missing one with the current time. Raises
        Problem (too-many)."""
        times, process = self.times, self.process_now()
        time = times.get_time(group_id)
        if time is not None:
            return time
        if len(times.by_group) >= MAX_CLOCKS:
            detail = (
                f"{MAX_CLOCKS} groups have their own clock, which is the limit: remove some of these clocks."
            )
            raise Problem(ProblemKind.TOO_MANY, "too many clocks", detail)
        time = times.add_time(group_id, process)
        self._add_interceptors()
        return time

    def freeze(self, group_id: str | None, time: GroupTime, process: Now | None = None) -> None:
        """Freeze the clock `time`. `process` is the current time of the process, by default now."""
        process = process or self.process_now()
        if not time.is_frozen:
            for view in filter(None, map(self.find_group, self.list_governed(group_id))):
                for member in view.members:
                    member_id = member.name.member_id
                    if self.times.find_heard_ms(view.group_id, member_id) is None:
                        heard_ms = process.monotonic_ms - member.silent_ms
                        self.times.record_heard(view.group_id, member_id, heard_ms)
        time.freeze(process)
        self._shift_deadlines(self.list_governed(group_id), 0)

    def unfreeze(self, group_id: str | None, time: GroupTime, process: Now | None = None) -> None:
        """Start the clock `time`. `process` is the current time of the process, by default now."""
        time.unfreeze(process or self.process_now())
        self._shift_deadlines(self.list_governed(group_id), 0)

    async def remove(self, group_id: str | None) -> None:
        """Remove a clock. Its groups use the default clock or the time of the process. Deadlines keep their
        remaining time."""
        async with self.locks(group_id):
            self._remove(group_id)

    def _remove(self, group_id: str | None) -> None:
        times, process = self.times, self.process_now()
        time = times.get_time(group_id)
        if time is None:
            return
        groups = self.list_governed(group_id)
        times.remove_time(group_id)
        before = time.group_now(process).monotonic_ms
        after = process if group_id is None else times.group_now(group_id, process)
        self._shift_deadlines(groups, after.monotonic_ms - before)
        self._remove_interceptors()
        for name in groups:
            if times.find_time(name) is None:
                times.keep_only_members(name, set())

    def close(self, ended_scope: str | None) -> None:
        """Remove every clock. Log a warning if committed offsets outlive a clock that was ahead.

        `ended_scope` names the ended process or broker in that line. None: the offsets end with the clocks.
        """
        self._reaper.stop()
        process = self.process_now()
        ahead_ms = {
            name: time.group_now(process).wall_ms - process.wall_ms
            for name, time in self.times.by_group.items()
        }
        ahead = [name for name, ms in ahead_ms.items() if ms > 0]
        if ahead and ended_scope is not None:
            _LOG.warning(
                "The clocks of %s end with %s and were ahead (%s by %s): offsets committed under them expire that "
                "much later",
                format_count(len(ahead), "group"),
                ended_scope,
                printable(ahead[0]),
                format_duration(ahead_ms[ahead[0]]),
            )

    # Disconnected members

    def _process_ms(self) -> int:
        return self.process_now().monotonic_ms

    def _iterate_expiring(self) -> Iterator[GroupView]:
        for shard in self._iterate_shards():
            for group_id in shard.list_group_ids():
                time = self.times.find_time(group_id)
                view = self.find_group(group_id) if time is not None and time.expires_disconnected else None
                if view is not None:
                    yield view

    def _expire_member(self, group_id: str, member_id: str) -> None:
        partition = self.runtime.find_partition(group_id)
        if partition.state is PartitionState.OWNED:
            self._group_client.request_now(partition, ExpireMember(group_id, member_id))
            self._actions.record_action(
                "clock", f"{member_id} is disconnected: its session ends while the clock is frozen", group_id
            )

    # Partitions

    def _iterate_shards(self) -> Iterator[GroupShard]:
        for partition in self.runtime.partitions:
            if partition.machine is not None:
                yield partition.machine

    def _add_interceptors(self) -> None:
        self._events.use_group_time(self.times.group_now)
        for partition in self._list_clocked_partitions():
            if partition.number not in self._interceptors:
                interceptor = self._interceptors[partition.number] = partial(ClockedShard, times=self.times)
                partition.interceptors.add(InterceptorRank.CLOCK, interceptor)

    def _remove_interceptors(self) -> None:
        needed = {partition.number for partition in self._list_clocked_partitions()}
        for number in self._interceptors.keys() - needed:
            self.runtime.partitions[number].interceptors.remove(self._interceptors.pop(number))
        if not self.times:
            self._events.use_group_time(None)

    def _list_clocked_partitions(self) -> list[CoordinatorPartition[GroupShard]]:
        """Return the partitions of groups that do not use the time of the process."""
        if self.times.default is not None:
            return self.runtime.partitions
        return [self.runtime.find_partition(group_id) for group_id in self.times.by_group]

    def _shift_deadlines(self, group_ids: list[str], by_ms: int) -> None:
        """Shift all deadlines of groups by `by_ms`, and arm their timers again."""
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.runtime.find_partition(group_id).number, []).append(group_id)
        for number, names in by_partition.items():
            self._group_client.request_now(self.runtime.partitions[number], ShiftDeadlines(names, by_ms))

    def _find_next_deadline(self, group_id: str, at: Now) -> NextDeadline | None:
        machine = self.runtime.find_partition(group_id).machine
        view = None if machine is None else machine.view_group(group_id, at)
        if machine is None or view is None:
            return None
        for deadline in list_deadlines(view, machine.list_deadlines(group_id)):
            if deadline.timer != REPORT:
                return NextDeadline(
                    timer=deadline.timer,
                    member=deadline.client_id,
                    member_id=deadline.key.member_id or None,
                    group_id=group_id,
                    in_ms=max(0, deadline.at_ms - at.monotonic_ms),
                )
        return None


class KeyedLock:
    """Locks by key. A key that no task holds or awaits is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._users: dict[Hashable, int] = {}

    @asynccontextmanager
    async def __call__(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key for the block."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]


MIN_AHEAD_MS: Final = 3_600_000
"""The minimum difference for a warning, in milliseconds. The clocks of two machines may differ by less."""
MAX_WARNINGS: Final = 20


class FutureOffsetWarnings:
    """Logs a warning when a loaded group has committed offsets from the future."""

    def __init__(self, services: Services, times: GroupTimeTable) -> None:
        self._runtime = services.runtime
        self._times = times
        self._warnings = 0
        services.group_events.subscribe(EventRank.CLOCK, self._on_event)

    def _on_event(self, partition: int, event: GroupEvent, _: int, now: Now) -> None:
        shard = self._runtime.partitions[partition].machine
        if (
            not isinstance(event, GroupLoaded)
            or shard is None
            or self._times.find_time(event.group_id) is not None
        ):
            return
        last_ms = shard.find_last_commit_ms(event.group_id)
        if last_ms is None or last_ms - now.wall_ms < MIN_AHEAD_MS or self._warnings >= MAX_WARNINGS:
            return
        self._warnings += 1
        _LOG.warning(
            "Group %s has committed offsets from %s in the future, because its clock was ahead before it was "
            "loaded. These offsets expire that much later.",
            printable(event.group_id),
            format_duration(last_ms - now.wall_ms),
        )
