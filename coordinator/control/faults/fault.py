"""One fault at work: what it has met, what it has hit, what it holds, and who waits for it to hit."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from coordinator import clock
from coordinator.control.faults.action import Action
from coordinator.control.faults.asked import Asked
from coordinator.control.faults.event_matcher import EventMatcher
from coordinator.control.faults.holding import Holding
from coordinator.control.faults.matcher import Matcher
from coordinator.control.faults.rule import FaultRule, FaultStatus, LastHit
from protocol.apis import APIS

MOST_GHOSTS: Final = 100


class Fault:
    """See the top of this file."""

    def __init__(
        self,
        name: str,
        rule: FaultRule,
        matcher: Matcher | None,
        on: EventMatcher | None,
        action: Action,
        by: str | None,
    ) -> None:
        """In: the rule as it is to be shown, and what was made of it: what it matches, or what it waits for."""
        self.name = name
        self.rule = rule
        self._matcher = matcher
        self.on = on
        self.action = action
        self.by = by
        self.matched = self.hit = 0
        self.is_over = False
        """Whether its time has passed, or it is removed."""
        self.holdings: list[Holding] = []
        """From the oldest."""
        self.ghosts: dict[str, None] = {}
        """Members that were told that they are none, while their group did not hear of it."""
        self.timer: asyncio.TimerHandle | None = None
        self.waiters: list[tuple[int, asyncio.Future[bool]]] = []
        """With how many hits each waits for."""
        self._random = Random(rule.seed)
        self._made_ms = clock.wall_ms()
        self._last: LastHit | None = None

    @property
    def matcher(self) -> Matcher:
        """What a fault matches that acts on requests or answers."""
        assert self._matcher is not None, self.name
        return self._matcher

    @property
    def group_id(self) -> str | None:
        """The one group that it is about; None where it may be about others as well."""
        about = self.rule.on or self.rule.match
        group = None if about is None else about.group
        return group if isinstance(group, str) and "*" not in group else None

    def meets(self) -> bool:
        """Counts a match; whether the fault would act on it."""
        self.matched += 1
        if self.matched <= self.rule.skip:
            return False
        is_drawn = self.rule.probability >= 1 or self._random.random() < self.rule.probability
        return is_drawn and not self.is_spent

    @property
    def is_spent(self) -> bool:
        """Whether it has acted as often as it was to."""
        times = self.rule.times
        return self.is_over or (isinstance(times, int) and self.hit >= times)

    def hits(self, what: str, group_id: str | None, asked: Asked | None = None) -> None:
        """Counts that it acts, and tells those who wait for that."""
        self.hit += 1
        self._last = LastHit(
            at_ms=clock.wall_ms(),
            what=what,
            group_id=group_id,
            api=None if asked is None else APIS[asked.key].name,
            client_id=None if asked is None else asked.client_id,
            member_id=None if asked is None else next(iter(asked.member_ids), None),
        )
        for wanted, waiter in self.waiters:
            if wanted <= self.hit and not waiter.done():
                waiter.set_result(True)

    def remember_ghosts(self, member_ids: Sequence[str]) -> None:
        """Keeps who was told that it is no member."""
        for member_id in member_ids:
            if len(self.ghosts) < MOST_GHOSTS:
                self.ghosts[member_id] = None

    def delay_s(self) -> float:
        """How long it delays now."""
        jitter_ms = self.action.jitter_ms
        return (self.action.delay_ms + (self._random.uniform(0, jitter_ms) if jitter_ms else 0)) / 1000

    @property
    def status(self) -> FaultStatus:
        """As it is now."""
        state = "over" if self.is_over else "spent" if self.is_spent else "active"
        return FaultStatus(
            name=self.name,
            state=state,
            rule=self.rule,
            matched=self.matched,
            hit=self.hit,
            holding=len(self.holdings),
            last=self._last,
            made_ms=self._made_ms,
            by=self.by,
        )


def first_that_acts(faults: Sequence[Fault], fits: Callable[[Fault], bool]) -> Fault | None:
    """The first fault, in the order in which they were made, that acts. All that fit count the match."""
    first = None
    for fault in faults:
        if not fault.is_over and fits(fault) and fault.meets() and first is None:
            first = fault
    return first
