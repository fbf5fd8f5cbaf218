"""The figures of all groups together, but for those that the server counts itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator import clock
from coordinator.control.clock.clocks import Clocks
from coordinator.control.faults.faults import Faults
from coordinator.control.figures.durations import Durations
from coordinator.control.figures.group_history import GroupHistories
from coordinator.control.ledger.ledger import Ledger
from coordinator.control.slices import Slices
from coordinator.server.brokers import Brokers
from coordinator.server.engine_figures import EngineFigures


@dataclass(frozen=True, slots=True)
class ControlFigures:
    """In values that change no more. Counts are since the start."""

    rebalances: Mapping[str, Durations]
    """Those that came to their end, by phase."""
    rebalance_open_s: float
    """How long the oldest open one has gone on; 0 where there is none."""
    fault_hits: Mapping[str, int]
    """By what faults do."""
    frozen_groups: int
    session_margin: float
    """The least share of its session that a member has left, of all groups; 1 where no session runs."""
    owned_partitions: Mapping[int, int]
    """By broker, those that live; nothing where there is one broker, as with the next."""
    moves: Mapping[str, int]
    """How often partitions came to another owner, or lost their only one, by why."""
    engine: EngineFigures | None
    """Of a cluster on etcd."""


class Gatherer:
    """Looks at what there is. All methods belong to the event loop's thread."""

    def __init__(
        self, histories: GroupHistories, ledger: Ledger, clocks: Clocks, faults: Faults, brokers: Brokers
    ) -> None:
        self._brokers = brokers
        self._histories = histories
        self._ledger = ledger
        self._clocks = clocks
        self._faults = faults

    async def gather(self) -> ControlFigures:
        """In slices, with everybody else in between."""
        margin, governed = await self._look_at_groups()
        since_ns = min(self._ledger.rebalancing_since_ns().values(), default=None)
        default = self._clocks.times.default
        return ControlFigures(
            rebalances={phase: one.copy() for phase, one in self._histories.durations.items()},
            rebalance_open_s=0 if since_ns is None else (clock.monotonic_ns() - since_ns) / 1e9,
            fault_hits=self._faults.hits,
            frozen_groups=len(self._clocks.frozen())
            + (governed if default is not None and default.is_frozen else 0),
            session_margin=margin,
            owned_partitions=self._brokers.owned_counts,
            moves=self._brokers.moves,
            engine=self._brokers.engine_figures,
        )

    async def _look_at_groups(self) -> tuple[float, int]:
        """The least session margin, and how many groups go by the default clock."""
        slices = Slices()
        margin, governed = 1.0, 0
        for partition in self._clocks.runtime.partitions:
            machine = partition.machine
            for group_id in () if machine is None else machine.group_ids():
                # What it was before others had their turn may be gone.
                machine = partition.machine
                if machine is None:
                    break
                found = machine.session_margin(group_id, self._clocks.now_of(group_id))
                margin = margin if found is None else min(margin, found)
                governed += self._clocks.governs(None, group_id)
                await slices.rest()
        return margin, governed
