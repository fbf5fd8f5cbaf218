"""Time passes for a group, deadline by deadline, and nobody who lives is taken for dead by that.

Before a deadline passes, the living are given a full session from then on: in reality they would have sent
heartbeats. Where it ends a wait for one of them, it is waited for in reality; if it does not come, the clock stops.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from msgspec import to_builtins

from coordinator import clock
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.agenda import Agenda
from coordinator.control.clock.clock_state import Fired
from coordinator.control.clock.clocks import Clocks
from coordinator.control.clock.deadline import REPORT, SESSIONS, Deadline
from coordinator.control.clock.event_words import event_words
from coordinator.control.clock.group_time import GroupTime
from coordinator.control.clock.happened import happening
from coordinator.control.clock.silence import Silence
from coordinator.control.problem import Problem, ProblemKind
from coordinator.engine.partition import PartitionState
from coordinator.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.events import Event
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import AwaitedRequest
from coordinator.group.requests import ExpireOffsets, KeepAlive, OffsetsGone
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from coordinator.server.group_events import GroupEvents

MAX_FIRED: Final = 10_000
"""Deadlines that may pass in one call."""
MAX_WAIT_MS: Final = 600_000
"""In reality, in one call."""
MAX_NAMED: Final = 20
LOOK_S: Final = 0.02
"""So often it is seen whether a member has come: not every request of one makes an event."""
_HEARTBEAT: Final = "Heartbeat"
_NOT_DONE: Final = {
    "join": "rejoined",
    "sync": "fetched the assignment",
    "pending": "joined with the id it was given",
    "session": "sent a heartbeat since it connected anew",
    "revocation": "given up its partitions",
    "rejoin": "rejoined",
    "resync": "fetched the assignment",
}
"""What a member has not done when the clock stops at a deadline."""
_OF_LIVING: Final = {
    "revocation": "ConsumerGroupHeartbeat",
    "rejoin": AwaitedRequest.JOIN.value,
    "resync": AwaitedRequest.SYNC.value,
}
"""Deadlines of single members of consumer groups, and what one that lives has yet to send."""


class Advance:
    """One call that moves a clock which is frozen."""

    def __init__(
        self,
        clocks: Clocks,
        asker: GroupAsker,
        events: GroupEvents,
        group_id: str | None,
        time: GroupTime,
        silence: Silence,
        settle_ms: int,
    ) -> None:
        """In: whose clock it is; who counts as silent; how long a member may take in reality."""
        self.fired: list[Fired] = []
        self.waited_ms = 0
        self._clocks = clocks
        self._asker = asker
        self._events = events
        self._group_id = group_id
        self._time = time
        self._silence = silence
        self._settle_ms = settle_ms
        self._passed = 0
        self._agenda = Agenda(
            partial(clocks.governed, group_id),
            partial(clocks.governs, group_id),
            self._view,
            lambda name: clocks.runtime.partition_of(name).machine,
            silence,
        )

    @property
    def _now_ms(self) -> int:
        return self._time.at(self._clocks.process_now()).monotonic_ms

    # What passes

    async def to(self, target_ms: int) -> None:
        """Moves on to a monotonic time of the clock. Raises Problem (clock-stopped, not-possible, loading)."""
        self._refuse_too_many(target_ms)
        with self._attending():
            while (nearest := await self._nearest_ready(target_ms)) is not None:
                await self._pass(nearest)
            self._time.move_to(target_ms)

    async def step(self) -> None:
        """Moves on to the next deadline at which something happens, if there is one. Raises Problem, as above."""
        with self._attending():
            while not self.fired and (nearest := await self._nearest_ready(None)) is not None:
                await self._pass(nearest)

    async def look_for_expired_offsets(self) -> None:
        """Retention looks at each group, as it would have meanwhile."""
        for group_id in self._clocks.governed(self._group_id):
            if self._clocks.view(group_id) is None:
                continue
            with happening(self._events, group_id) as happened:
                gone = await self._asker.ask(group_id, ExpireOffsets(group_id), 0)
            assert isinstance(gone, OffsetsGone)
            if happened.events:
                key = TimerKey(TimerKind.EXPIRE_OFFSETS, group_id)
                self._note(Deadline(self._now_ms, key, "retention", None), happened.events)

    @contextmanager
    def _attending(self) -> Iterator[None]:
        """However it ends, all who live have a full session from then on."""
        self._events.listeners.append(self._agenda.happened)
        try:
            yield
        finally:
            self._events.listeners.remove(self._agenda.happened)
            for view in filter(None, map(self._clocks.view, self._clocks.governed(self._group_id))):
                self._silence.look(view)
                self._keep_alive(view, self._now_ms)

    # The next deadline

    def _view(self, group_id: str) -> GroupView | None:
        if self._group_id is not None:
            self._asker.partition_of(group_id)
        return self._clocks.view(group_id)

    async def _nearest_ready(self, target_ms: int | None) -> tuple[Deadline, GroupView] | None:
        """The same, once nobody who lives is awaited at it any more."""
        blocked: tuple[TimerKey, int] | None = None
        since_ms = clock.monotonic_ms()
        while True:
            nearest = self._agenda.nearest(target_ms)
            awaited = [] if nearest is None else self._awaited(*nearest)
            if nearest is None or not awaited:
                return nearest
            deadline, view = nearest
            now_ms = clock.monotonic_ms()
            if blocked != (deadline.key, deadline.at_ms):
                blocked, since_ms = (deadline.key, deadline.at_ms), now_ms
            if now_ms - since_ms >= self._settle_ms or self.waited_ms >= MAX_WAIT_MS:
                raise self._stopped(deadline, view, awaited)
            await asyncio.sleep(LOOK_S)
            self.waited_ms += clock.monotonic_ms() - now_ms

    def _awaited(self, deadline: Deadline, view: GroupView) -> list[tuple[MemberName, str]]:
        """Who lives and would be lost when a deadline passes, with what they have not sent."""
        member_id, living = deadline.key.member_id, self._silence.living(view)
        if deadline.timer == "session" and self._silence.is_unsure(view.group_id, member_id):
            names = [member.name for member in view.members if member.name.member_id == member_id]
            return [(name, _HEARTBEAT) for name in names]
        if deadline.timer == "pending" and member_id in living:
            names = [pending.name for pending in view.pending if pending.name.member_id == member_id]
            return [(name, AwaitedRequest.FIRST_JOIN) for name in names]
        if deadline.timer in _OF_LIVING and member_id in living:
            names = [member.name for member in view.members if member.name.member_id == member_id]
            return [(name, _OF_LIVING[deadline.timer]) for name in names]
        if deadline.timer not in ("join", "sync") or view.rebalance is None:
            return []
        return [
            (one.member, one.request.value)
            for one in view.rebalance.awaited
            if one.member.member_id in living and one.request is not AwaitedRequest.FIRST_JOIN
        ]

    # At a deadline

    async def _pass(self, nearest: tuple[Deadline, GroupView]) -> None:
        deadline, view = nearest
        partition = self._asker.partition_of(view.group_id)
        if partition.state is not PartitionState.OWNED:
            detail = f"{partition.name} can only be read now: nothing may end in {printable(view.group_id)}."
            raise Problem(ProblemKind.LOADING, f"{partition.name} is {partition.state.value}", detail)
        if self._passed >= MAX_FIRED:
            raise self._too_many(f"{MAX_FIRED} deadlines have passed, and the time asked for is not reached")
        self._passed += 1
        at_ms = max(deadline.at_ms, self._now_ms)
        self._keep_alive(view, at_ms)
        for other in self._agenda.ends_by(at_ms):
            self._keep_alive(other, at_ms)
            self._agenda.look_again(other.group_id)
        self._time.move_to(at_ms)
        with happening(self._events, view.group_id) as happened:
            self._clocks.runtime.fire(partition, deadline.key)
        if deadline.timer != REPORT:
            self._note(deadline, happened.events)
        # What was written is written before time goes on, and others have their turn.
        await self._asker.ask(view.group_id, KeepAlive(view.group_id, (), 0), 0)
        await asyncio.sleep(0)

    def _keep_alive(self, view: GroupView, at_ms: int) -> None:
        living = self._silence.living(view)
        by_timeout: dict[int, list[str]] = {}
        for member in view.members:
            if member.name.member_id in living:
                timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
                by_timeout.setdefault(timeout_ms, []).append(member.name.member_id)
        partition = self._clocks.runtime.partition_of(view.group_id)
        for timeout_ms, ids in by_timeout.items():
            self._asker.tell(partition, KeepAlive(view.group_id, ids, at_ms + timeout_ms))

    def _note(self, deadline: Deadline, events: Sequence[Event]) -> None:
        self.fired.append(
            Fired(
                timer=deadline.timer,
                group_id=deadline.key.group_id,
                member=deadline.client_id,
                member_id=deadline.key.member_id or None,
                at_ms=self._time.at(self._clocks.process_now()).wall_ms,
                events=event_words(events),
            )
        )

    # Why it goes no further

    def _refuse_too_many(self, target_ms: int) -> None:
        count = 0
        for view in filter(None, map(self._view, self._clocks.governed(self._group_id))):
            self._silence.look(view)
            machine = self._clocks.runtime.partition_of(view.group_id).machine
            living = self._silence.living(view)
            if machine is not None:
                due = [key for key, at_ms in machine.deadlines(view.group_id).items() if at_ms <= target_ms]
                count += sum(key.kind not in SESSIONS or key.member_id not in living for key in due)
        if count > MAX_FIRED:
            raise self._too_many(f"{count} deadlines would pass")

    def _too_many(self, what: str) -> Problem:
        detail = f"{what}; one call lets {MAX_FIRED} pass: advance in smaller steps."
        return Problem(ProblemKind.NOT_POSSIBLE, "too many deadlines", detail, self.so_far())

    def _stopped(
        self, deadline: Deadline, view: GroupView, awaited: Sequence[tuple[MemberName, str]]
    ) -> Problem:
        group, timer, many = printable(view.group_id), deadline.timer, len(awaited) > 1
        left_ms = max(0, deadline.at_ms - self._now_ms)
        who = ", ".join(
            f"{printable(name.client_id)} (its {request})" for name, request in awaited[:MAX_NAMED]
        )
        more = f" and {len(awaited) - MAX_NAMED} more" if len(awaited) > MAX_NAMED else ""
        what = _NOT_DONE[timer]
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
        fields = {"group_id": view.group_id, "timer": timer, "awaited": named, **self.so_far()}
        return Problem(ProblemKind.CLOCK_STOPPED, f"the clock of {group} has stopped", detail, fields)

    def so_far(self) -> dict[str, object]:
        """What is told of it where it has not come to its end."""
        return {"fired": to_builtins(self.fired), "waited_ms": self.waited_ms}
