"""The figures of single groups, for who names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

from coordinator import clock
from coordinator.control.clock.clocks import Clocks
from coordinator.control.figures.group_history import GroupHistories, GroupHistory
from coordinator.control.groups.partition_ends import Ends, ends_of
from coordinator.control.ledger.ledger import Ledger
from coordinator.control.slices import Slices
from coordinator.topics.data_plane import DataPlane

MOST_GROUPS: Final = 1_000
"""Groups that are told of: the first in the order of their ids."""

_NONE: Final = GroupHistory()
"""Of all groups of which nothing was heard."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Of one group."""

    group_id: str
    type: str
    state: str
    members: int
    is_frozen: bool
    rebalance_open_s: float
    """0 where it is not rebalancing."""
    session_margin: float | None
    """The least share of its session that a member has left; None where no session runs."""
    history: GroupHistory
    """What befell it since it was first heard of."""
    offsets: Mapping[tuple[str, int], int]
    """What was committed, by topic and partition."""


@dataclass(frozen=True, slots=True)
class AllGroupFigures:
    """Of those that were asked for. `ends` are of the partitions for which one of them committed something, as far
    as they are there; `partitions` is how many each of these topics has."""

    groups: list[GroupFigures]
    left_out: int
    """How many more there are than are told of."""
    ends: Mapping[tuple[str, int], Ends]
    partitions: Mapping[str, int]


class GroupGatherer:
    """Looks at groups. All methods belong to the event loop's thread."""

    def __init__(self, histories: GroupHistories, ledger: Ledger, clocks: Clocks, plane: DataPlane) -> None:
        self._histories = histories
        self._ledger = ledger
        self._clocks = clocks
        self._plane = plane

    async def gather(self, fits: Callable[[str], bool]) -> AllGroupFigures:
        """Of the groups whose ids fit, in slices, with everybody else in between. Groups of a partition that is
        being loaded are not there."""
        slices = Slices()
        found, left_out = await self._find(fits, slices)
        since_ns = self._ledger.rebalancing_since_ns()
        groups: list[GroupFigures] = []
        ends: dict[tuple[str, int], Ends] = {}
        for group_id in found:
            figures = self._figures(group_id, since_ns)
            await slices.rest()
            if figures is None:  # it is gone meanwhile
                continue
            groups.append(figures)
            for place in figures.offsets:
                if place not in ends:
                    there = ends_of(self._plane, *place)
                    if there is not None:
                        ends[place] = there
                await slices.rest()
        topics = {name: self._plane.catalogue.get(name) for name in sorted({name for name, _ in ends})}
        partitions = {name: len(topic.partitions) for name, topic in topics.items() if topic is not None}
        return AllGroupFigures(groups, left_out, ends, partitions)

    async def _find(self, fits: Callable[[str], bool], slices: Slices) -> tuple[list[str], int]:
        by_partition: list[list[str]] = []
        for partition in self._clocks.runtime.partitions:
            machine = partition.machine
            fitting = []
            for group_id in () if machine is None else machine.group_ids():
                if fits(group_id):
                    fitting.append(group_id)
                await slices.rest()
            by_partition.append(sorted(fitting))
        found = list(islice(merge(*by_partition), MOST_GROUPS))
        return found, sum(map(len, by_partition)) - len(found)

    def _figures(self, group_id: str, since_ns: Mapping[str, int]) -> GroupFigures | None:
        machine = self._clocks.runtime.partition_of(group_id).machine
        now = self._clocks.now_of(group_id)
        standing = None if machine is None else machine.standing(group_id)
        if machine is None or standing is None:
            return None
        history = self._histories.by_group.get(group_id)
        opened_ns = since_ns.get(group_id)
        return GroupFigures(
            group_id=group_id,
            type=standing.type.value,
            state=standing.state,
            members=standing.members,
            is_frozen=self._clocks.is_frozen(group_id),
            rebalance_open_s=0 if opened_ns is None else (clock.monotonic_ns() - opened_ns) / 1e9,
            session_margin=machine.session_margin(group_id, now),
            history=_NONE if history is None else history.copy(),
            offsets=machine.committed_offsets(group_id),
        )
