"""The worst finding of each group, for lists of groups.

A diagnosis reads the members and connections of a group, which takes about a millisecond. One call diagnoses groups
for at most `SPENT_NS`, the group with the oldest diagnosis first, and takes the last known findings of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from coordinator.control.group_finding import GroupFinding
from coordinator.core import clock
from coordinator.core.time_budget import RunQueue, TimeBudget

SPENT_NS: Final = 25_000_000
"""The maximum duration of the diagnoses of one call, in nanoseconds."""
MIN_AGE_NS: Final = 500_000_000
"""The age from which a diagnosis is repeated."""


class WorstFindings:
    """The weightiest blocking finding of each group. All methods belong to the event loop's thread."""

    def __init__(self, find_worst: Callable[[str], GroupFinding | None], run_queue: RunQueue) -> None:
        """Create an empty cache. `find_worst` diagnoses a group now."""
        self._find_worst = find_worst
        self._run_queue = run_queue
        self._known: dict[str, tuple[int, GroupFinding | None]] = {}

    async def find(self, group_ids: Sequence[str]) -> Mapping[str, GroupFinding]:
        """Return the worst findings by group id. Groups without a blocking finding are left out, as are groups
        that were not diagnosed yet."""
        self._known = {group_id: self._known[group_id] for group_id in group_ids if group_id in self._known}
        budget = TimeBudget(self._run_queue)
        began_ns = clock.monotonic_ns()
        spent_ns = 0
        for diagnosed_ns, group_id in sorted((self._find_time_ns(one), one) for one in group_ids):
            if spent_ns >= SPENT_NS or began_ns - diagnosed_ns < MIN_AGE_NS:
                break
            before_ns = clock.monotonic_ns()
            self._known[group_id] = (before_ns, self._find_worst(group_id))
            spent_ns += clock.monotonic_ns() - before_ns
            await budget.checkpoint()
        found = {group_id: self._known.get(group_id, (0, None))[1] for group_id in group_ids}
        return {group_id: finding for group_id, finding in found.items() if finding is not None}

    def _find_time_ns(self, group_id: str) -> int:
        return self._known.get(group_id, (-MIN_AGE_NS, None))[0]
