"""A rebalance does not come to an end.

It counts in the group's time, as far as that much has passed in reality, too: a clock that is moved on says nothing
of what members have had the time to do. A group whose clock stands still is stuck after twice as long in reality.
While an empty group waits for its first members (group.initial.rebalance.delay.ms) nothing is counted.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import Level, OracleName
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who
from coordinator.group.events import (
    Event,
    GroupDeleted,
    GroupLoaded,
    GroupStabilized,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.state import ClassicGroupState
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from coordinator.server.log_words import listed, seconds

REAL_FACTOR: Final = 2
_EMPTY: Final = ClassicGroupState.EMPTY.value
_COMPLETING: Final = ClassicGroupState.COMPLETING_REBALANCE.value
_REBALANCING: Final = (ClassicGroupState.PREPARING_REBALANCE.value, _COMPLETING)
_MOST_AWAITED: Final = 5


@dataclass(frozen=True, slots=True)
class _Open:
    """Since when a rebalance counts: monotonic, in the group's time and in the process's."""

    group_ms: int
    real_ms: int


class StuckRebalance:
    """Looks at the groups whose rebalance is open."""

    name: Final = OracleName.STUCK_REBALANCE

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._open: dict[str, _Open] = {}
        self.hears: dict[type[Event], Hear] = {
            RebalanceStarted: self._started,
            GroupStabilized: self._joined,
            RebalanceCompleted: self._ended,
            GroupLoaded: self._ended,
            GroupDeleted: self._ended,
        }

    def _started(self, event: RebalanceStarted) -> None:
        if event.state != _EMPTY:
            self._begin(event.group_id)

    def _joined(self, event: GroupStabilized) -> None:
        self._begin(event.group_id)

    def _begin(self, group_id: str) -> None:
        if group_id not in self._open:
            self._open[group_id] = _Open(self._watch.group_now(group_id).monotonic_ms, self._watch.now_ms())
            self._watch.look_in(self.name, group_id, self._watch.config.oracle_stuck_ms)

    def _ended(self, event: Event) -> None:
        if self._open.pop(event.group_id, None) is not None:
            self._watch.look_no_more(self.name, event.group_id)

    def look(self, group_id: str) -> None:
        """Whether it is open for too long by now."""
        opened = self._open.get(group_id)
        if opened is None:
            return
        longest_ms = self._watch.config.oracle_stuck_ms
        open_ms = self._watch.group_now(group_id).monotonic_ms - opened.group_ms
        real_ms = self._watch.now_ms() - opened.real_ms
        left_ms = min(longest_ms - min(open_ms, real_ms), REAL_FACTOR * longest_ms - real_ms)
        if left_ms > 0:
            self._watch.look_in(self.name, group_id, left_ms)
            return
        view = self._watch.view(group_id)
        del self._open[group_id]
        if view is not None and view.state in _REBALANCING:
            self._found(view, real_ms)

    def _found(self, view: GroupView, open_ms: int) -> None:
        rebalance = view.rebalance
        assert rebalance is not None, view.group_id
        actor = rebalance.trigger.actor
        by = "" if actor is None else f", by {who(actor)}"
        again = f"; begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
        awaited = [f"the {one.request} of {who(one.member)}" for one in rebalance.awaited[:_MOST_AWAITED]]
        waits = f" It awaits {listed(awaited, len(rebalance.awaited))}." if awaited else ""
        names = [one.member for one in rebalance.awaited]
        self._watch.found(
            Finding(
                oracle=self.name,
                level=Level.ERROR,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=view.generation_id,
                detail=f"{printable(view.group_id)} is {view.state}, and has rebalanced for {seconds(open_ms)} "
                f"(cause: {rebalance.trigger.cause}{by}{again}).{waits}",
                members=names if actor is None else [*names, actor],
            )
        )
