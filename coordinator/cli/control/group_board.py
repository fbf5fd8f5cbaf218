"""The table of `groupd top`: all groups with their findings, their waits and their lag, groups in trouble first."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, structs

from coordinator.cli.command_errors import DaemonError
from coordinator.cli.control.api_answers import (
    BoardRow,
    parse_board,
    parse_group_description,
    parse_group_offsets,
    parse_groups,
)
from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.event_line import state_style
from coordinator.cli.text_table import EMPTY_CELL, Column, format_cell
from coordinator.control.admin.group_models import (
    GroupDescription,
    GroupOffsets,
    GroupSummary,
    RebalanceDescription,
)
from coordinator.core.message_text import format_duration, format_list

COLUMNS: Final = (
    Column("group", wraps=True, style=lambda _: "bold"),
    Column("state", style=state_style),
    Column("gen", is_number=True, is_optional=True),
    Column("members", is_number=True, is_optional=True),
    Column("gone", is_number=True, is_optional=True, style=lambda text: "" if text == "0" else "red"),
    Column("lag", is_number=True, style=lambda text: "" if text in ("0", EMPTY_CELL) else "yellow"),
    Column("violations", is_number=True, is_optional=True, style=lambda text: "" if text == "0" else "red"),
    Column("open", is_number=True, is_optional=True, style=lambda _: "yellow"),
    Column("because", wraps=True, is_optional=True),
)
_STATE_ORDER: Final = {"PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 1, "Empty": 2, "Dead": 3}
_MAX_AWAITED: Final = 3


class GroupWithOffsets(Struct, frozen=True, kw_only=True):
    """A group with all data of its row. `violations` counts the violations since the start of the daemon. `worst`
    is the sentence of the finding that blocks the group most, None without one."""

    group: GroupDescription
    offsets: GroupOffsets
    violations: int = 0
    worst: str | None = None


class GroupBoard:
    """The known state of the groups of a daemon. It is updated for groups that may have changed."""

    def __init__(self, client: ApiClient) -> None:
        self.summaries: list[GroupSummary] = []
        """The groups in the order of the table."""
        self._client = client
        self._cache: dict[str, GroupWithOffsets] = {}

    def forget_groups(self, group_ids: Iterable[str]) -> None:
        """Discard the cached data of groups that have changed."""
        for group_id in group_ids:
            self._cache.pop(group_id, None)

    def fetch_groups(self, limit: int | None = None) -> list[GroupWithOffsets]:
        """Return the first `limit` groups of the table (None: all). Raises ServerUnreachable, DaemonError."""
        summaries = parse_groups(self._client.get_json("groups"))
        rows = {row.group_id: row for row in parse_board(self._client.get_json("board")).groups}
        self.summaries = sorted(
            summaries, key=lambda one: _rank_group(one, rows.get(one.group_id, BoardRow(one.group_id)))
        )
        shown = [self._fetch_group(summary) for summary in self.summaries[:limit]]
        existing = {summary.group_id for summary in self.summaries}
        self._cache = {name: group for name, group in self._cache.items() if name in existing}
        return [_add_trouble(group, rows.get(group.group.group_id)) for group in shown if group is not None]

    def _fetch_group(self, summary: GroupSummary) -> GroupWithOffsets | None:
        known = self._cache.get(summary.group_id)
        if known is not None and known.group.rebalance is None and known.group.state == summary.state:
            return known
        try:
            found = GroupWithOffsets(
                group=parse_group_description(self._client.get_json("groups", summary.group_id)),
                offsets=parse_group_offsets(self._client.get_json("groups", summary.group_id, "offsets")),
            )
        except DaemonError:
            return None  # deleted meanwhile
        self._cache[summary.group_id] = found
        return found


def _rank_group(summary: GroupSummary, row: BoardRow) -> tuple[int, int, int, int, str]:
    """Return the sort key of a group: blocking findings, violations, state, lag, name."""
    state = _STATE_ORDER.get(summary.state, 0)
    return -(row.worst is not None), -(row.violations > 0), state, -(row.lag or 0), summary.group_id


def _add_trouble(group: GroupWithOffsets, row: BoardRow | None) -> GroupWithOffsets:
    if row is None:
        return group
    worst = None if row.worst is None else row.worst.sentence
    return structs.replace(group, violations=row.violations, worst=worst)


def format_board_row(shown: GroupWithOffsets) -> list[str]:
    """Return the cells of the row of a group."""
    group = shown.group
    rebalance = group.rebalance
    return [
        format_cell(group.group_id),
        format_cell(group.state),
        format_cell(group.generation_id),
        format_cell(len(group.members)),
        format_cell(sum(not member.is_connected for member in group.members)),
        format_cell(shown.offsets.lag),
        format_cell(shown.violations),
        EMPTY_CELL if rebalance is None else format_duration(rebalance.open_ms),
        format_cell(shown.worst if rebalance is None else _format_cause(rebalance)),
    ]


def _format_cause(rebalance: RebalanceDescription) -> str:
    awaited = [one.client_id for one in rebalance.awaited]
    waits = f"; awaits {format_list(awaited[:_MAX_AWAITED], len(awaited))}" if awaited else ""
    return f"{rebalance.cause}{waits}"
