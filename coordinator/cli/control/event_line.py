"""An event on one line: when, its number, the group, what happened."""

import re
from collections.abc import Mapping
from typing import Any, Final

from coordinator.cli.times import time_of_day
from coordinator.net.peer import printable

_MAX_LINE: Final = 4_000
_NUMBER_CELLS: Final = 5
_KIND_CELLS: Final = 18
_STYLES: Final = (
    ("Expired|Evicted|Fenced|Stalled|Refused|Unreadable", "red"),
    ("RebalanceCompleted|Stabilized|AssignmentApplied", "green"),
    ("RebalanceStarted|RebalanceWaits|RebalanceDelayed|ToldToRejoin", "yellow"),
    ("Joined|Rejoined|Replaced|Loaded", "cyan"),
    ("Left|Deleted|Emptied", "magenta"),
)
"""By a part of the kind."""


def kind_style(kind: str) -> str:
    """How a kind of events is shown at a terminal."""
    return next((style for part, style in _STYLES if re.search(part, kind)), "blue")


def event_parts(
    kind: str, value: Mapping[str, Any], *, with_group: bool, is_aligned: bool
) -> list[tuple[str, str]]:
    """Texts, each with its style. In: what the API says of an event; whether texts of several lines are to stand
    below each other."""
    number, name = f"#{_text(value.get('seq'))}", _text(kind)
    if is_aligned:
        number, name = number.ljust(_NUMBER_CELLS), name.ljust(_KIND_CELLS)
    parts = [(_time(value.get("at_ms")), "dim"), (number, "")]
    if with_group:
        parts.append((_text(value.get("group_id")), "bold"))
    return [*parts, (name, kind_style(kind)), (_text(value.get("line")), "")]


def _time(at_ms: Any) -> str:
    return time_of_day(at_ms) if isinstance(at_ms, int) else "-"


def _text(value: Any) -> str:
    return "-" if value is None else printable(str(value), _MAX_LINE)
