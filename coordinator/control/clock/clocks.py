"""The clocks of groups: given, held, let run, taken away. Where one is, a `Tap` stands in front of the partition.

What a group waits for is counted in its own time, so that nothing of it changes when its clock is held or goes on;
only when a group changes from one clock to another its deadlines are moved, to keep the time that they have left.
"""

import logging
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from coordinator import clock
from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.clock_state import ClockState, NextDeadline
from coordinator.control.clock.deadline import REPORT, deadlines_of
from coordinator.control.clock.departed import Departed
from coordinator.control.clock.future_offsets import FutureOffsets
from coordinator.control.clock.gone_watch import GoneWatch
from coordinator.control.clock.group_time import GroupTime
from coordinator.control.clock.group_times import GroupTimes
from coordinator.control.clock.one_at_a_time import OneAtATime
from coordinator.control.clock.tap import Tap
from coordinator.control.clock.text import duration_text
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import Partition, PartitionState
from coordinator.group.requests import ExpireMember, MoveTimes
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.log_words import count
from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Control")
MAX_CLOCKS: Final = 10_000
"""Groups with a clock of their own."""


class Clocks:
    """See the top of this file. `group_id` is None for the default of all groups that have none of their own."""

    def __init__(self, server: Server, acts: Acts, asker: GroupAsker, connections: MemberConnections) -> None:
        self.times = times = GroupTimes()
        self.departed = Departed(server, connections, times)
        self.alone = OneAtATime()
        self.runtime = server.runtime
        self._clock = server.group_clock
        self._events = server.group_events
        self._acts = acts
        self._asker = asker
        self._watch = GoneWatch(
            server.loop, self.departed, times, self._with_gone, self._process_ms, self._let_go
        )
        self._future_offsets = FutureOffsets(server, times)
        self._tapped: dict[int, partial[Tap]] = {}

    # Looking

    def process_now(self) -> Now:
        """The time from which clocks are counted."""
        return self._clock.now()

    def now_of(self, group_id: str) -> Now:
        """What time it is for a group."""
        return self.times.at(group_id, self.process_now())

    def is_frozen(self, group_id: str) -> bool:
        """Whether the time of a group stands still."""
        time = self.times.of(group_id)
        return time is not None and time.is_frozen

    def frozen(self) -> Collection[str]:
        """The groups, there or not, whose own clock stands still."""
        return [group_id for group_id, time in self.times.own.items() if time.is_frozen]

    def state(self, group_id: str | None) -> ClockState | None:
        """How the clock of a group stands, or the default; None where it is the process's."""
        time = self.times.default if group_id is None else self.times.of(group_id)
        return None if time is None else self.shown(group_id)

    def shown(self, group_id: str | None, process: Now | None = None) -> ClockState:
        """The same, with that of the process where there is no other. In: at which instant; now."""
        process = process or self.process_now()
        time = self.times.default if group_id is None else self.times.of(group_id)
        is_own = group_id in self.times.own
        at = process if time is None else time.at(process)
        real_ms = clock.wall_ms()
        return ClockState(
            group_id=group_id,
            clock="process" if time is None else "group" if is_own else "default",
            frozen=time is not None and time.is_frozen,
            except_="gone" if time is not None and time.lets_gone_go else None,
            group_time_ms=at.wall_ms,
            real_time_ms=real_ms,
            ahead_ms=at.wall_ms - process.wall_ms,
            next=None if group_id is None else self._next(group_id, at),
        )

    def view(self, group_id: str) -> GroupView | None:
        """A group as it is now, at its own time; None when there is none, or it cannot be asked now."""
        machine = self.runtime.partition_of(group_id).machine
        return None if machine is None else machine.view(group_id, self.now_of(group_id))

    def governed(self, group_id: str | None) -> list[str]:
        """The groups that are there and go by a clock."""
        if group_id is not None:
            return [group_id]
        return [name for shard in self._shards() for name in shard.group_ids() if name not in self.times.own]

    def governs(self, group_id: str | None, name: str) -> bool:
        """Whether a group, if it is there, goes by a clock."""
        return name == group_id if group_id is not None else name not in self.times.own

    def frozen_hints(self, view: GroupView) -> list[str]:
        """What to do about a group that stands still and waits for somebody who will not come."""
        if view.rebalance is None or not self.is_frozen(view.group_id):
            return []
        time, name, hints = self.times.of(view.group_id), printable(view.group_id), []
        if view.rebalance.is_initial:
            call = f"POST /v1/groups/{name}/clock/step"
            hints.append(f"The clock of {name} is frozen in its initial delay: {call} ends that.")
        gone = (
            set()
            if time is not None and time.lets_gone_go
            else self.departed.of(view) - self.departed.back_perhaps(view)
        )
        for awaited in view.rebalance.awaited:
            if awaited.member.member_id in gone:
                client, member_id = printable(awaited.member.client_id), printable(awaited.member.member_id)
                hints.append(
                    f"The clock of {name} is frozen and {client}, whose {awaited.request.value} is awaited, is "
                    f"gone: its session cannot end. POST /v1/groups/{name}/members/{member_id}/expire ends it; "
                    f'PUT /v1/groups/{name}/clock {{"frozen": true, "except": "gone"}} ends those of all that go.'
                )
        return hints

    # Changing

    async def put(self, group_id: str | None, *, frozen: bool, lets_gone_go: bool) -> ClockState:
        """Holds a clock, or lets it run. Raises Problem (too-many)."""
        async with self.alone(group_id):
            # One instant for all: a clock that was only held is not behind by the time that this takes.
            exists, process = self.state(group_id) is not None, self.process_now()
            if frozen or exists:
                time = self.take(group_id)
                if frozen:
                    self.freeze(group_id, time, process)
                    time.lets_gone_go = lets_gone_go
                    if lets_gone_go:
                        self._watch.begin()
                else:
                    self.run(group_id, time, process)
            return self.shown(group_id, process)

    def take(self, group_id: str | None) -> GroupTime:
        """The clock of a group's own, or the default; made where there is none, so that nothing changes by that.
        Raises Problem (too-many)."""
        times, process = self.times, self.process_now()
        time = times.default if group_id is None else times.own.get(group_id)
        if time is not None:
            return time
        if len(times.own) >= MAX_CLOCKS:
            detail = f"{MAX_CLOCKS} groups have a clock of their own: remove some of these."
            raise Problem(ProblemKind.TOO_MANY, "too many clocks", detail)
        if group_id is None:
            time = times.default = GroupTime(process, process)
        else:
            time = times.own[group_id] = GroupTime(times.at(group_id, process), process)
        self._put_taps()
        return time

    def freeze(self, group_id: str | None, time: GroupTime, process: Now | None = None) -> None:
        """Holds a clock. In: the instant; now."""
        process = process or self.process_now()
        if not time.is_frozen:
            for view in filter(None, map(self.view, self.governed(group_id))):
                for member in view.members:
                    member_id = member.name.member_id
                    if self.times.heard_ms(view.group_id, member_id) is None:
                        heard_ms = process.monotonic_ms - member.silent_ms
                        self.times.hear(view.group_id, member_id, heard_ms)
        time.freeze(process)
        self._move(self.governed(group_id), 0)

    def run(self, group_id: str | None, time: GroupTime, process: Now | None = None) -> None:
        """Lets a clock go on from where it is. In: as above."""
        time.run(process or self.process_now())
        self._move(self.governed(group_id), 0)

    async def remove(self, group_id: str | None) -> None:
        """The group goes by the default, or by the process's time. Deadlines keep the time that they have left."""
        async with self.alone(group_id):
            self._remove(group_id)

    def _remove(self, group_id: str | None) -> None:
        times, process = self.times, self.process_now()
        time = times.default if group_id is None else times.own.get(group_id)
        if time is None:
            return
        groups = self.governed(group_id)
        if group_id is None:
            times.default = None
        else:
            del times.own[group_id]
        before = time.at(process).monotonic_ms
        after = process if group_id is None else times.at(group_id, process)
        self._move(groups, after.monotonic_ms - before)
        self._take_taps_away()
        for name in groups:
            if times.of(name) is None:
                times.forget_others(name, set())

    def close(self, ends: str | None) -> None:
        """Forgets every clock. Logs a warning where committed offsets outlive a clock that was ahead.

        In: what ends, for that line; None where the offsets end with the clocks."""
        self._watch.stop()
        process = self.process_now()
        ahead_ms = {name: time.at(process).wall_ms - process.wall_ms for name, time in self.times.own.items()}
        ahead = [name for name, ms in ahead_ms.items() if ms > 0]
        if ahead and ends is not None:
            _LOG.warning(
                "The clocks of %s end with %s and were ahead (%s by %s): offsets committed under them expire that "
                "much later",
                count(len(ahead), "group"),
                ends,
                printable(ahead[0]),
                duration_text(ahead_ms[ahead[0]]),
            )

    # Those who are gone

    def _process_ms(self) -> int:
        return self.process_now().monotonic_ms

    def _with_gone(self) -> Iterator[GroupView]:
        for shard in self._shards():
            for group_id in shard.group_ids():
                time = self.times.of(group_id)
                view = self.view(group_id) if time is not None and time.lets_gone_go else None
                if view is not None:
                    yield view

    def _let_go(self, group_id: str, member_id: str) -> None:
        partition = self.runtime.partition_of(group_id)
        if partition.state is PartitionState.OWNED:
            self._asker.tell(partition, ExpireMember(group_id, member_id))
            self._acts.note(
                "clock", f"{member_id} is gone: its session ends while the clock is frozen", group_id
            )

    # Partitions

    def _shards(self) -> Iterator[Shard]:
        for partition in self.runtime.partitions:
            if partition.machine is not None:
                yield partition.machine

    def _put_taps(self) -> None:
        self._events.now_of = self.times.at
        for partition in self._needed():
            if partition.number not in self._tapped:
                front = self._tapped[partition.number] = partial(Tap, times=self.times)
                partition.put_in_front(front)

    def _take_taps_away(self) -> None:
        needed = {partition.number for partition in self._needed()}
        for number in [number for number in self._tapped if number not in needed]:
            self.runtime.partitions[number].take_away(self._tapped.pop(number))
        if not self.times:
            self._events.now_of = None

    def _needed(self) -> list[Partition[Shard]]:
        """The partitions of groups that have another clock than the process's."""
        if self.times.default is not None:
            return self.runtime.partitions
        return [self.runtime.partition_of(group_id) for group_id in self.times.own]

    def _move(self, group_ids: list[str], by_ms: int) -> None:
        """Moves all that groups wait for, and has every timer of theirs armed anew, at once."""
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.runtime.partition_of(group_id).number, []).append(group_id)
        for number, names in by_partition.items():
            self._asker.tell(self.runtime.partitions[number], MoveTimes(names, by_ms))

    def _next(self, group_id: str, at: Now) -> NextDeadline | None:
        machine = self.runtime.partition_of(group_id).machine
        view = None if machine is None else machine.view(group_id, at)
        if machine is None or view is None:
            return None
        for deadline in deadlines_of(view, machine.deadlines(group_id)):
            if deadline.timer != REPORT:
                return NextDeadline(
                    timer=deadline.timer,
                    member=deadline.client_id,
                    member_id=deadline.key.member_id or None,
                    group_id=group_id,
                    in_ms=max(0, deadline.at_ms - at.monotonic_ms),
                )
        return None
