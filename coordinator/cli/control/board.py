"""All groups at a glance: those that rebalance first, with what they wait for, and how far each is behind."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.cli.control.answers import description_of, groups_of, offsets_of
from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.failure import Refused
from coordinator.cli.control.spans import span
from coordinator.cli.control.states import state_style
from coordinator.cli.control.table import NOTHING, Column, cell
from coordinator.control.groups.description import GroupDescription, GroupSummary, RebalanceDescription
from coordinator.control.groups.offset_description import GroupOffsets

COLUMNS: Final = (
    Column("group", folds=True, style=lambda _: "bold"),
    Column("state", style=state_style),
    Column("gen", is_figure=True, may_go=True),
    Column("members", is_figure=True, may_go=True),
    Column("lag", is_figure=True, style=lambda text: "" if text in ("0", NOTHING) else "yellow"),
    Column("open", is_figure=True, may_go=True, style=lambda _: "yellow"),
    Column("because", folds=True, may_go=True),
)
_TURN: Final = {"PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 1, "Empty": 2, "Dead": 3}
_MOST_AWAITED: Final = 3


class BoardGroup(Struct, frozen=True, kw_only=True):
    """A group with everything that is shown of it."""

    group: GroupDescription
    offsets: GroupOffsets


class Board:
    """What is known of the groups of a daemon. What may have changed is asked for anew."""

    def __init__(self, client: ApiClient) -> None:
        self.summaries: list[GroupSummary] = []
        """In the order in which they are shown."""
        self._client = client
        self._known: dict[str, BoardGroup] = {}

    def forget(self, group_ids: Iterable[str]) -> None:
        """Something happened in those."""
        for group_id in group_ids:
            self._known.pop(group_id, None)

    def look(self, most: int | None = None) -> list[BoardGroup]:
        """The first so many groups. Raises Unreachable, Refused."""
        summaries = groups_of(self._client.get("groups"))
        self.summaries = sorted(summaries, key=lambda one: (_TURN.get(one.state, 0), one.group_id))
        shown = [self._group(summary) for summary in self.summaries[:most]]
        there = {summary.group_id for summary in self.summaries}
        self._known = {name: group for name, group in self._known.items() if name in there}
        return [group for group in shown if group is not None]

    def _group(self, summary: GroupSummary) -> BoardGroup | None:
        known = self._known.get(summary.group_id)
        if known is not None and known.group.rebalance is None and known.group.state == summary.state:
            return known
        try:
            found = BoardGroup(
                group=description_of(self._client.get("groups", summary.group_id)),
                offsets=offsets_of(self._client.get("groups", summary.group_id, "offsets")),
            )
        except Refused:
            return None  # it has gone meanwhile
        self._known[summary.group_id] = found
        return found


def board_row(shown: BoardGroup) -> list[str]:
    """The cells of a group."""
    group = shown.group
    rebalance = group.rebalance
    return [
        cell(group.group_id),
        cell(group.state),
        cell(group.generation_id),
        cell(len(group.members)),
        cell(shown.offsets.lag),
        NOTHING if rebalance is None else span(rebalance.open_ms),
        NOTHING if rebalance is None else cell(_because(rebalance)),
    ]


def _because(rebalance: RebalanceDescription) -> str:
    awaited = [one.client_id for one in rebalance.awaited]
    whom = ", ".join(awaited[:_MOST_AWAITED])
    more = f" and {len(awaited) - _MOST_AWAITED} more" if len(awaited) > _MOST_AWAITED else ""
    waits = f"; awaits {whom}{more}" if awaited else ""
    return f"{rebalance.cause}{waits}"
