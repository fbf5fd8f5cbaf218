"""What befell each group since it was first heard of: counts that metrics give by its id."""

from collections import Counter, OrderedDict
from typing import Final

from coordinator.control.figures.durations import PHASES, Durations, durations_ms
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.oracles.violation import Severity, Violation
from coordinator.group.events import Event, GroupDeleted
from coordinator.machine.outcome import Now
from coordinator.server.tallies import Tallies, tallied

MOST_GROUPS: Final = 10_000
"""Groups of which something is remembered: of more, those are forgotten of which nothing was heard for longest."""


class GroupHistory:
    """Of one group."""

    __slots__ = ("completed", "notices", "spent_ms", "tallies", "violations")

    def __init__(self) -> None:
        self.tallies: Tallies = Counter()
        self.violations: Counter[str] = Counter()
        self.notices: Counter[str] = Counter()
        """Both by oracle."""
        self.completed = 0
        """Rebalances that came to their end."""
        self.spent_ms = (0, 0, 0)
        """In all of these, by phase as in `PHASES`."""

    def copy(self) -> "GroupHistory":
        """As it is now."""
        copied = GroupHistory()
        copied.tallies = self.tallies.copy()
        copied.violations, copied.notices = self.violations.copy(), self.notices.copy()
        copied.completed, copied.spent_ms = self.completed, self.spent_ms
        return copied


class GroupHistories:
    """Of all. It hears of events, of closed entries of the ledger and of violations."""

    def __init__(self) -> None:
        self.by_group: OrderedDict[str, GroupHistory] = OrderedDict()
        self.durations = {phase: Durations() for phase in PHASES}
        """Of all groups."""

    def observe(self, partition: int, event: Event, number: int, now: Now) -> None:
        """An `EventListener`."""
        if type(event) is GroupDeleted:
            self.by_group.pop(event.group_id, None)
            return
        added = tallied(event)
        if added is not None:
            self._of(event.group_id).tallies[added[0]] += added[1]

    def closed(self, entry: LedgerEntry) -> None:
        """A rebalance is over."""
        took_ms = durations_ms(entry)
        if took_ms is None:
            return
        history = self._of(entry.group_id)
        history.completed += 1
        join_ms, sync_ms, total_ms = history.spent_ms
        history.spent_ms = join_ms + took_ms["join"], sync_ms + took_ms["sync"], total_ms + took_ms["total"]
        for phase, duration_ms in took_ms.items():
            self.durations[phase].add(duration_ms)

    def found(self, violation: Violation) -> None:
        """An oracle found something, maybe again."""
        history = self._of(violation.group_id)
        is_violation = violation.severity is Severity.VIOLATION
        (history.violations if is_violation else history.notices)[violation.oracle] += 1

    def _of(self, group_id: str) -> GroupHistory:
        history = self.by_group.get(group_id)
        if history is None:
            history = self.by_group[group_id] = GroupHistory()
            if len(self.by_group) > MOST_GROUPS:
                self.by_group.popitem(last=False)
        else:
            self.by_group.move_to_end(group_id)
        return history
