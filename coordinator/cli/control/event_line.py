"""Formats an event as one line (time, number, group, kind, text), with the styles of event kinds and group
states.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import printable
from coordinator.group.group_types import STATE_NAMES

STATES: Final = STATE_NAMES
STATE_STYLES: Final = {
    "Stable": "green",
    "Empty": "cyan",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
}


def state_style(state: str) -> str:
    """Return the style of a state on a terminal."""
    return STATE_STYLES.get(state, "")


_MAX_LINE: Final = 4_000
_NUMBER_CELLS: Final = 5
_KIND_CELLS: Final = 18
_KIND_STYLES: Final = (
    ("Expired|Evicted|Fenced|Stalled|Refused|Unreadable", "red"),
    ("RebalanceCompleted|Stabilized|AssignmentApplied", "green"),
    ("RebalanceStarted|RebalanceWaits|RebalanceDelayed|ToldToRejoin", "yellow"),
    ("Joined|Rejoined|Replaced|Loaded", "cyan"),
    ("Left|Deleted|Emptied", "magenta"),
)
"""The styles of event kinds, by a part of the kind."""


def kind_style(kind: str) -> str:
    """Return the style of a kind of events on a terminal."""
    return next((style for part, style in _KIND_STYLES if re.search(part, kind)), "blue")


def format_event(
    kind: str, value: Mapping[str, Any], *, with_group: bool, is_aligned: bool
) -> list[tuple[str, str]]:
    """Return the parts of an event's line, each with its style. `is_aligned` aligns the parts of several lines."""
    number, name = f"#{_format_value(value.get('seq'))}", _format_value(kind)
    if is_aligned:
        number, name = number.ljust(_NUMBER_CELLS), name.ljust(_KIND_CELLS)
    parts = [(_format_time(value.get("at_ms")), "dim"), (number, "")]
    if with_group:
        parts.append((_format_value(value.get("group_id")), "bold"))
    return [*parts, (name, kind_style(kind)), (_format_value(value.get("line")), "")]


def _format_time(at_ms: Any) -> str:
    return format_time_of_day(at_ms) if isinstance(at_ms, int) else "-"


def _format_value(value: Any) -> str:
    return "-" if value is None else printable(str(value), _MAX_LINE)
