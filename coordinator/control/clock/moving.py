"""Clocks are moved on: so much, or to the next deadline."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.advance import Advance
from coordinator.control.clock.clock_state import Advanced
from coordinator.control.clock.clocks import Clocks
from coordinator.control.clock.group_time import GroupTime
from coordinator.control.clock.silence import Silence
from coordinator.control.clock.text import duration_text
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.problem import Problem, ProblemKind
from coordinator.server.server import Server


class Moving:
    """See the top of this file. `group_id` is None for the default clock, and moves the groups that go by that."""

    def __init__(
        self, server: Server, acts: Acts, asker: GroupAsker, clocks: Clocks, removals: GroupRemovals
    ) -> None:
        self._retention_interval_ms = server.group_config.offsets_retention_check_interval_ms
        self._events = server.group_events
        self._acts = acts
        self._asker = asker
        self._clocks = clocks
        self._removals = removals

    async def advance(
        self,
        group_id: str | None,
        by_ms: int,
        *,
        silent: Sequence[str] | None,
        settle_ms: int,
        what: str,
        actor: str | None,
    ) -> Advanced:
        """Moves a clock by so much. In: who is silent, None for those who are gone; how long a member that is
        awaited may take in reality; what to call this. Raises Problem (clock-stopped, no-such-group,
        no-such-member, ambiguous-member, not-possible, too-many, loading)."""
        async with self._held(group_id, silent, settle_ms) as (advance, time, silence):
            self._acts.note("clock", what, group_id, actor)
            with self._telling_how_far(advance, time):
                await advance.to(self._now_ms(time) + by_ms)
                if by_ms >= self._retention_interval_ms:
                    operation = f"advanced its clock by {duration_text(by_ms)}"
                    with self._removals.attributed_to(group_id, operation, actor):
                        await advance.look_for_expired_offsets()
        return self._answer(group_id, by_ms, advance, silence)

    async def step(
        self,
        group_id: str | None,
        *,
        silent: Sequence[str] | None,
        settle_ms: int,
        actor: str | None,
    ) -> Advanced:
        """Moves a clock to the next deadline, if there is one. As above."""
        async with self._held(group_id, silent, settle_ms) as (advance, time, silence):
            self._acts.note("clock", "step", group_id, actor)
            before_ms = self._now_ms(time)
            with self._telling_how_far(advance, time):
                await advance.step()
            by_ms = self._now_ms(time) - before_ms
        return self._answer(group_id, by_ms, advance, silence)

    @asynccontextmanager
    async def _held(
        self, group_id: str | None, silent: Sequence[str] | None, settle_ms: int
    ) -> AsyncIterator[tuple[Advance, GroupTime, Silence]]:
        """A clock that runs is frozen meanwhile, and then runs on."""
        clocks = self._clocks
        async with clocks.alone(group_id):
            self._check(group_id)
            silence = Silence(silent, clocks.departed)
            views = list(filter(None, map(clocks.view, clocks.governed(group_id))))
            silence.refuse_unknown(views)
            time = clocks.take(group_id)
            ran = not time.is_frozen
            clocks.freeze(group_id, time)
            try:
                yield (
                    Advance(clocks, self._asker, self._events, group_id, time, silence, settle_ms),
                    time,
                    silence,
                )
            finally:
                if ran:
                    clocks.run(group_id, time)

    @contextmanager
    def _telling_how_far(self, advance: Advance, time: GroupTime) -> Iterator[None]:
        """Groups may be given up in the middle of it, and time has passed for them all the same."""
        before_ms = self._now_ms(time)
        try:
            yield
        except Problem as problem:
            moved_ms = self._now_ms(time) - before_ms
            if problem.kind is not ProblemKind.LOADING or not moved_ms:
                raise
            detail = f"{problem.detail} {duration_text(moved_ms)} have passed by then."
            fields = {**problem.fields, **advance.so_far(), "moved_ms": moved_ms}
            raise Problem(problem.kind, problem.title, detail, fields) from problem

    def _check(self, group_id: str | None) -> None:
        """Raises Problem (no-such-group, loading). A clock may be there before its group."""
        if group_id is not None:
            self._asker.partition_of(group_id)
            if self._clocks.view(group_id) is None and group_id not in self._clocks.times.own:
                raise self._removals.no_such_group(group_id)

    def _now_ms(self, time: GroupTime) -> int:
        return time.at(self._clocks.process_now()).monotonic_ms

    def _answer(self, group_id: str | None, by_ms: int, advance: Advance, silence: Silence) -> Advanced:
        return Advanced(
            by_ms=by_ms,
            fired=advance.fired,
            silent=silence.clients,
            waited_ms=advance.waited_ms,
            clock=self._clocks.shown(group_id),
        )
