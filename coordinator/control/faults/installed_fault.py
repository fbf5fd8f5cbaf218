"""An installed fault: its matcher and action, its counters, the requests that it holds, and its creation from
a rule.

Creation refuses an invalid rule and a rule that could never act. A held, delayed or swallowed request or
response keeps its place in the response order of its connection, and nothing behind it is processed
meanwhile.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from random import Random
from typing import Final

from msgspec import structs

from coordinator.control.faults.fault_action import DISK_POINTS, FaultAction, compile_action
from coordinator.control.faults.fault_matchers import EventMatcher, RequestAttributes, RequestMatcher
from coordinator.control.faults.fault_rule import (
    EventMatch,
    FaultRule,
    FaultStatus,
    LastHit,
    RequestMatch,
    apply_preset,
)
from coordinator.control.field_parsers import (
    impossible_field_problem,
    invalid_field_problem,
    parse_duration_ms,
)
from coordinator.core import clock
from coordinator.core.reply import Reply
from coordinator.core.shared_types import LogFlush
from protocol.apis import APIS

LONGEST_HOLD_S: Final = 600.0
"""The maximum duration of a hold, in seconds."""


class HeldRequest:
    """A request or a response that a fault holds, delays or swallows."""

    __slots__ = ("_on_released", "_resume", "_timer", "kind", "reply", "request", "since_ns")

    def __init__(
        self,
        kind: str,
        request: RequestAttributes,
        reply: Reply,
        resume: Callable[[], None],
        on_released: Callable[["HeldRequest"], None],
    ) -> None:
        """Create a held request. `resume` continues it. `on_released` is called at its release or after a
        disconnection."""
        self.kind = kind
        self.request = request
        self.reply = reply
        self.since_ns = clock.monotonic_ns()
        self._resume = resume
        self._on_released = on_released
        self._timer: asyncio.TimerHandle | None = None
        reply.hold(self._on_connection_lost)

    def release_after(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Schedule the release in `seconds` seconds."""
        self._timer = loop.call_later(seconds, self.release)

    def release(self) -> None:
        """Continue a held request, or close the connection of a swallowed one. Later calls have no effect."""
        self._detach()
        if self.kind == "swallow":
            self.reply.abort_connection()
        else:
            self._resume()

    def _on_connection_lost(self) -> None:
        """Forget the held request, because its client has disconnected."""
        self._detach()

    def _detach(self) -> None:
        self.reply.release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_released(self)


MAX_GHOSTS: Final = 100


class InstalledFault:
    def __init__(
        self,
        name: str,
        rule: FaultRule,
        matcher: RequestMatcher | None,
        on: EventMatcher | None,
        action: FaultAction,
        by: str | None,
    ) -> None:
        """Create a fault from a rule and its parsed parts: `matcher` for requests, or `on` for events."""
        self.name = name
        self.rule = rule
        self._matcher = matcher
        self.event_matcher = on
        self.action = action
        self.by = by
        self.match_count = self.hit_count = 0
        self.is_over = False
        """Whether the duration of the fault has ended, or the fault was removed."""
        self.held_requests: list[HeldRequest] = []
        """The held requests, the oldest first."""
        self.ghosts: dict[str, None] = {}
        """Members that got UNKNOWN_MEMBER_ID from the fault, while the group knows them."""
        self.waiters: list[tuple[int, asyncio.Future[bool]]] = []
        """The awaited number of hits of each wait, and its result: whether the fault reached that number."""
        self._timer: asyncio.TimerHandle | None = None
        self._random = Random(rule.seed)
        self._made_ms = clock.wall_ms()
        self._last: LastHit | None = None

    @property
    def matcher(self) -> RequestMatcher:
        """Return the matcher of a fault on requests or responses."""
        assert self._matcher is not None, self.name
        return self._matcher

    @property
    def group_id(self) -> str | None:
        """The only group to which the fault applies; None if it may apply to others as well."""
        about = self.rule.on or self.rule.match
        group = None if about is None else about.group
        return group if isinstance(group, str) and "*" not in group else None

    def expire_after(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        on_expired: Callable[["InstalledFault"], None],
    ) -> None:
        """End the fault after its time, and call `on_expired`."""
        self._timer = loop.call_later(seconds, self._expire, on_expired)

    def _expire(self, on_expired: Callable[["InstalledFault"], None]) -> None:
        self._timer = None
        self.is_over = True
        on_expired(self)

    def end(self) -> None:
        """End the fault, because it is removed or replaced. Waits for more hits end, too."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(False)

    def try_trigger(self) -> bool:
        """Count a match, and return whether the fault acts on it."""
        self.match_count += 1
        if self.match_count <= self.rule.skip:
            return False
        is_drawn = self.rule.probability >= 1 or self._random.random() < self.rule.probability
        return is_drawn and not self.is_spent

    @property
    def is_spent(self) -> bool:
        """Whether the fault has acted as often as its rule allows."""
        times = self.rule.times
        return self.is_over or (isinstance(times, int) and self.hit_count >= times)

    def record_hit(
        self, description: str, group_id: str | None, request: RequestAttributes | None = None
    ) -> None:
        """Count a hit and notify the waits for it."""
        self.hit_count += 1
        self._last = LastHit(
            at_ms=clock.wall_ms(),
            what=description,
            group_id=group_id,
            api=None if request is None else APIS[request.key].name,
            client_id=None if request is None else request.client.client_id,
            member_id=None if request is None else next(iter(request.member_ids), None),
        )
        for wanted, waiter in self.waiters:
            if wanted <= self.hit_count and not waiter.done():
                waiter.set_result(True)

    def add_ghosts(self, member_ids: Sequence[str]) -> None:
        """Remember members that got UNKNOWN_MEMBER_ID from the fault."""
        for member_id in member_ids:
            if len(self.ghosts) < MAX_GHOSTS:
                self.ghosts[member_id] = None

    def draw_delay_s(self) -> float:
        """Draw the delay of this hit, in seconds."""
        jitter_ms = self.action.jitter_ms
        return (self.action.delay_ms + (self._random.uniform(0, jitter_ms) if jitter_ms else 0)) / 1000

    @property
    def status(self) -> FaultStatus:
        """Return the current status of the fault."""
        state = "over" if self.is_over else "spent" if self.is_spent else "active"
        return FaultStatus(
            name=self.name,
            state=state,
            rule=self.rule,
            matched=self.match_count,
            hit=self.hit_count,
            holding=len(self.held_requests),
            last=self._last,
            made_ms=self._made_ms,
            by=self.by,
        )


def find_first_triggered(
    faults: Sequence[InstalledFault], matches: Callable[[InstalledFault], bool]
) -> InstalledFault | None:
    """Return the first fault that acts, in the order of creation. All matching faults count the match."""
    first = None
    for fault in faults:
        if not fault.is_over and matches(fault) and fault.try_trigger() and first is None:
            first = fault
    return first


_FILTERS: Final = {
    "match": RequestMatch.__struct_fields__,
    "on": tuple(name for name in EventMatch.__struct_fields__ if name != "event"),
    "do": ("partitions",),
}
"""The fields of a rule's parts that restrict the targets of the fault."""


def create_fault(
    name: str, rule: FaultRule, by: str | None, flush: LogFlush, brokers: Container[int]
) -> InstalledFault:
    """Create a fault without hits.

    `flush` is the policy of the logs. `brokers` has the ids of all brokers, also stopped ones. Raises Problem
    (bad-request, not-possible).
    """
    rule = structs.replace(apply_preset(_without_empty_lists(rule)), name=name)
    _check_counts(rule)
    if rule.on is not None and rule.match is not None:
        raise invalid_field_problem("/on", "match and on exclude each other")
    if rule.on is not None:
        action = compile_action(rule, None)
        if action.to is not None and action.to not in brokers:
            raise impossible_field_problem("/do/failover/to", f"Broker {action.to} does not exist")
        return InstalledFault(name, rule, None, EventMatcher(rule.on), action, by)
    matcher = RequestMatcher(rule.match or RequestMatch())
    action = compile_action(rule, matcher)
    if action.at in DISK_POINTS and action.at in ("sync", "after_sync") and flush is not LogFlush.ALWAYS:
        raise impossible_field_problem(
            "/do/at", f"Responses do not wait for a sync with log.flush={flush.value}"
        )
    return InstalledFault(name, rule, matcher, None, action, by)


def _without_empty_lists(rule: FaultRule) -> FaultRule:
    """Return the rule with null in place of each empty list that restricts nothing."""
    for field, filters in _FILTERS.items():
        part = getattr(rule, field)
        if part is not None:
            empty = {name: None for name in filters if getattr(part, name) == []}
            rule = structs.replace(rule, **{field: structs.replace(part, **empty)})
    return rule


def _check_counts(rule: FaultRule) -> None:
    if rule.skip < 0:
        raise invalid_field_problem("/skip", "it must be at least 0")
    if isinstance(rule.times, int) and rule.times < 1:
        raise invalid_field_problem("/times", "it must be at least 1, or null for no limit")
    if not 0 < rule.probability <= 1:
        raise invalid_field_problem("/probability", "it must be above 0 and at most 1")
    if rule.for_ is not None and not parse_duration_ms(rule.for_, "for"):
        raise invalid_field_problem("/for", "it must be above 0")
