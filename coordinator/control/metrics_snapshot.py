"""Values for metrics of the control plane: totals over all groups, and values of selected groups.

`GroupCountTable` counts events, closed ledger entries and oracle findings by group, and rebalance durations by
phase. Beyond a limit it drops the groups without an event for the longest time. The two sources collect immutable
snapshots in slices on the event loop's thread.
"""

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

from coordinator.broker.broker_metrics import EtcdMetrics, find_increment
from coordinator.broker.broker_metrics import GroupCounts as EventCounts
from coordinator.broker.services import ClusterMembership
from coordinator.control.admin.offset_operations import PartitionEnds, find_partition_ends
from coordinator.control.clock.clock_registry import ClockRegistry
from coordinator.control.diagnosis.violation import Severity, Violation
from coordinator.control.faults.fault_registry import FaultRegistry
from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry, is_clock_moved
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.core import clock
from coordinator.core.outcome import Now
from coordinator.core.time_budget import Budget, RunQueue, TimeBudget
from coordinator.group.group_event_types import GroupDeleted, GroupEvent
from coordinator.topics.data_plane import DataPlane

DURATION_BOUNDS_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Upper bounds of the buckets of the histogram, in seconds. A last bucket has no upper bound."""
PHASES: Final = ("join", "sync", "total")
_BOUNDS_MS: Final = tuple(bound * 1000 for bound in DURATION_BOUNDS_S)


class PhaseDurations:
    """The durations of one phase: the number of rebalances in each bucket, and the sum of their durations."""

    __slots__ = ("buckets", "sum_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_MS) + 1)
        self.sum_ms = 0

    def add(self, duration_ms: int) -> None:
        """Add the duration of one rebalance."""
        self.buckets[bisect_left(_BOUNDS_MS, duration_ms)] += 1
        self.sum_ms += duration_ms

    def copy(self) -> "PhaseDurations":
        """Return a copy of the current durations."""
        copied = PhaseDurations()
        copied.buckets, copied.sum_ms = self.buckets.copy(), self.sum_ms
        return copied


def compute_phase_durations_ms(entry: LedgerEntry) -> Mapping[str, int] | None:
    """Return the duration of each phase of a closed entry, or None for an entry that was replaced.

    If the clock of the group was changed, the durations are in the time of the process.
    """
    if entry.result not in (EntryResult.STABLE, EntryResult.EMPTY):
        return None
    real = entry.real
    source = entry if real is None or not is_clock_moved(entry.total_ms, real) else real
    return {"join": source.join_ms, "sync": source.sync_ms, "total": source.total_ms}


MAX_COUNTED_GROUPS: Final = 10_000
"""The maximum number of groups with counts. The groups without an event for the longest time are dropped."""


class GroupCounts:
    """Counts of one group."""

    __slots__ = ("completed_rebalances", "event_counts", "notices", "phase_totals_ms", "violations")

    def __init__(self) -> None:
        self.event_counts: EventCounts = Counter()
        self.violations: Counter[str] = Counter()
        self.notices: Counter[str] = Counter()
        """The violations and the notices are counted by oracle."""
        self.completed_rebalances = 0
        """The number of rebalances that ended without being replaced."""
        self.phase_totals_ms = (0, 0, 0)
        """The total duration of each phase in these rebalances, in milliseconds and in the order of `PHASES`."""

    def copy(self) -> "GroupCounts":
        """Return a copy of the current counts."""
        copied = GroupCounts()
        copied.event_counts = self.event_counts.copy()
        copied.violations, copied.notices = self.violations.copy(), self.notices.copy()
        copied.completed_rebalances, copied.phase_totals_ms = self.completed_rebalances, self.phase_totals_ms
        return copied


class GroupCountTable:
    """The counts of all groups, from events, closed entries of the ledger and violations."""

    def __init__(self) -> None:
        self.by_group: OrderedDict[str, GroupCounts] = OrderedDict()
        self.durations = {phase: PhaseDurations() for phase in PHASES}
        """The durations of all groups by phase."""

    def on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        """Count an event. This is an `EventListener`."""
        if type(event) is GroupDeleted:
            self.by_group.pop(event.group_id, None)
            return
        added = find_increment(event)
        if added is not None:
            self._find_or_add(event.group_id).event_counts[added[0]] += added[1]

    def on_rebalance_closed(self, entry: LedgerEntry) -> None:
        """Count a closed rebalance."""
        took_ms = compute_phase_durations_ms(entry)
        if took_ms is None:
            return
        counts = self._find_or_add(entry.group_id)
        counts.completed_rebalances += 1
        join_ms, sync_ms, total_ms = counts.phase_totals_ms
        counts.phase_totals_ms = (
            join_ms + took_ms["join"],
            sync_ms + took_ms["sync"],
            total_ms + took_ms["total"],
        )
        for phase, duration_ms in took_ms.items():
            self.durations[phase].add(duration_ms)

    def on_violation(self, violation: Violation) -> None:
        """Count a violation or a notice, also a repeated one."""
        counts = self._find_or_add(violation.group_id)
        is_violation = violation.severity is Severity.VIOLATION
        (counts.violations if is_violation else counts.notices)[violation.oracle] += 1

    def _find_or_add(self, group_id: str) -> GroupCounts:
        counts = self.by_group.get(group_id)
        if counts is None:
            counts = self.by_group[group_id] = GroupCounts()
            if len(self.by_group) > MAX_COUNTED_GROUPS:
                self.by_group.popitem(last=False)
        else:
            self.by_group.move_to_end(group_id)
        return counts


@dataclass(frozen=True, slots=True)
class ControlMetricsSnapshot:
    """Immutable metrics of the control plane. Counts begin at the start of the daemon."""

    rebalances: Mapping[str, PhaseDurations]
    """The rebalances that ended without being replaced, by phase."""
    rebalance_open_s: float
    """The duration of the oldest open rebalance in seconds; 0 without one."""
    fault_hits: Mapping[str, int]
    """The number of hits by the action of the fault."""
    frozen_groups: int
    session_margin: float
    """The smallest remaining share of a session of any member, from 0 to 1; 1 without a running session."""
    owned_partitions: Mapping[int, int]
    """The number of owned partitions by live broker. Empty with a single broker, as is `moves`."""
    moves: Mapping[str, int]
    """The number of changes and losses of owners, by cause."""
    engine: EtcdMetrics | None
    """The metrics of etcd; None without a cluster on etcd."""


class ControlMetricsSource:
    """Collects the metrics of the control plane. All methods belong to the thread of the event loop."""

    def __init__(
        self,
        counts: GroupCountTable,
        ledger: RebalanceLedger,
        clocks: ClockRegistry,
        faults: FaultRegistry,
        membership: ClusterMembership,
        run_queue: RunQueue,
    ) -> None:
        self._membership = membership
        self._run_queue = run_queue
        self._counts = counts
        self._ledger = ledger
        self._clocks = clocks
        self._faults = faults

    async def take_snapshot(self) -> ControlMetricsSnapshot:
        """Return the metrics. The scan of the groups has checkpoints, the rest are values of the time after it."""
        margin, governed = await self._scan_groups()
        since_ns = min(self._ledger.rebalancing_since_ns().values(), default=None)
        default = self._clocks.times.default
        return ControlMetricsSnapshot(
            rebalances={phase: one.copy() for phase, one in self._counts.durations.items()},
            rebalance_open_s=0 if since_ns is None else (clock.monotonic_ns() - since_ns) / 1e9,
            fault_hits=self._faults.hit_counts,
            frozen_groups=len(self._clocks.list_frozen())
            + (governed if default is not None and default.is_frozen else 0),
            session_margin=margin,
            owned_partitions=self._membership.owned_counts,
            moves=self._membership.moves,
            engine=self._membership.etcd_metrics,
        )

    async def _scan_groups(self) -> tuple[float, int]:
        """Return the smallest session margin and the number of groups that use the default clock."""
        budget = TimeBudget(self._run_queue)
        margin, governed = 1.0, 0
        for partition in self._clocks.runtime.partitions:
            machine = partition.machine
            for group_id in () if machine is None else machine.list_group_ids():
                # The partition may be unloaded and the group may be deleted at a checkpoint.
                machine = partition.machine
                if machine is None:
                    break
                if machine.summarize_group(group_id) is not None:
                    found = machine.compute_session_margin(group_id, self._clocks.group_now(group_id))
                    margin = margin if found is None else min(margin, found)
                    governed += self._clocks.governs(None, group_id)
                await budget.checkpoint()
        return margin, governed


MAX_METRIC_GROUPS: Final = 1_000
"""The maximum number of groups in the metrics: the first ones in the order of their ids."""

_NO_COUNTS: Final = GroupCounts()
"""The counts of a group without events."""


@dataclass(frozen=True, slots=True)
class GroupMetricsSnapshot:
    """Metrics of one group."""

    group_id: str
    type: str
    state: str
    members: int
    is_frozen: bool
    rebalance_open_s: float
    """The duration of the open rebalance in seconds; 0 without one."""
    session_margin: float | None
    """The smallest remaining share of a session of a member, from 0 to 1; None without a running session."""
    counts: GroupCounts
    """The counts of the group since its first event."""
    offsets: Mapping[tuple[str, int], int]
    """The committed offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class SelectedGroupMetrics:
    """The metrics of the selected groups.

    `ends` has the log end offsets of available partitions with a committed offset of one of the groups.
    `partitions` has the number of partitions of each of these topics.
    """

    groups: list[GroupMetricsSnapshot]
    left_out: int
    """The number of selected groups beyond the limit."""
    ends: Mapping[tuple[str, int], PartitionEnds]
    partitions: Mapping[str, int]

    def compute_lag(self, group: GroupMetricsSnapshot) -> int | None:
        """Return the sum of the lags of a group over partitions with a committed offset, None without any."""
        lags = [
            max(0, self.ends[place].end - offset)
            for place, offset in group.offsets.items()
            if place in self.ends
        ]
        return sum(lags) if lags else None


class GroupMetricsSource:
    """Collects the metrics of selected groups. All methods belong to the thread of the event loop."""

    def __init__(
        self,
        counts: GroupCountTable,
        ledger: RebalanceLedger,
        clocks: ClockRegistry,
        plane: DataPlane,
        run_queue: RunQueue,
    ) -> None:
        self._counts = counts
        self._ledger = ledger
        self._clocks = clocks
        self._plane = plane
        self._run_queue = run_queue

    async def take_snapshot(self, is_selected: Callable[[str], bool]) -> SelectedGroupMetrics:
        """Return the metrics of the groups whose ids `is_selected` accepts, and those of their partitions.

        All values of one group are of the same time. Groups of a partition that is loading and groups that are
        deleted at a checkpoint are left out.
        """
        budget = TimeBudget(self._run_queue)
        found, left_out = await self._select_groups(is_selected, budget)
        groups: list[GroupMetricsSnapshot] = []
        ends: dict[tuple[str, int], PartitionEnds] = {}
        for group_id in found:
            snapshot = self._snapshot_group(group_id)
            await budget.checkpoint()
            if snapshot is None:
                continue
            groups.append(snapshot)
            for place in snapshot.offsets:
                if place not in ends:
                    partition_ends = find_partition_ends(self._plane, *place)
                    if partition_ends is not None:
                        ends[place] = partition_ends
                await budget.checkpoint()
        topics = {name: self._plane.catalogue.find_topic(name) for name in sorted({name for name, _ in ends})}
        partitions = {name: len(topic.partitions) for name, topic in topics.items() if topic is not None}
        return SelectedGroupMetrics(groups, left_out, ends, partitions)

    async def _select_groups(
        self, is_selected: Callable[[str], bool], budget: Budget
    ) -> tuple[list[str], int]:
        by_partition: list[list[str]] = []
        for partition in self._clocks.runtime.partitions:
            machine = partition.machine
            fitting = []
            for group_id in () if machine is None else machine.list_group_ids():
                if is_selected(group_id):
                    fitting.append(group_id)
                await budget.checkpoint()
            by_partition.append(sorted(fitting))
        found = list(islice(merge(*by_partition), MAX_METRIC_GROUPS))
        return found, sum(map(len, by_partition)) - len(found)

    def _snapshot_group(self, group_id: str) -> GroupMetricsSnapshot | None:
        machine = self._clocks.runtime.find_partition(group_id).machine
        now = self._clocks.group_now(group_id)
        summary = None if machine is None else machine.summarize_group(group_id)
        if machine is None or summary is None:
            return None
        counts = self._counts.by_group.get(group_id)
        opened_ns = self._ledger.find_rebalance_start_ns(group_id)
        return GroupMetricsSnapshot(
            group_id=group_id,
            type=summary.type.value,
            state=summary.state,
            members=summary.members,
            is_frozen=self._clocks.is_frozen(group_id),
            rebalance_open_s=0 if opened_ns is None else (clock.monotonic_ns() - opened_ns) / 1e9,
            session_margin=machine.compute_session_margin(group_id, now),
            counts=_NO_COUNTS if counts is None else counts.copy(),
            offsets=machine.list_committed_offsets(group_id),
        )
