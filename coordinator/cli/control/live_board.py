"""The board on a terminal, which is redrawn after each event."""

from collections import Counter, deque
from threading import Event as Signal
from threading import Lock, Thread
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from coordinator.cli.command_errors import DaemonError, ServerUnreachable
from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.event_follower import EventFollower, FollowedEvent
from coordinator.cli.control.event_line import format_event, state_style
from coordinator.cli.control.group_board import COLUMNS, GroupBoard, GroupWithOffsets, format_board_row
from coordinator.cli.rich_output import create_terminal_table
from coordinator.core import clock
from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import format_count

_MIN_REFRESH_S: Final = 0.25
"""The minimum time between two updates in seconds, independent of the number of events."""
_MAX_REFRESH_S: Final = 2.0
"""The maximum time between two updates in seconds. Without events, only durations change."""
_REFRESHES_UNTIL_ALL: Final = 3
"""The number of updates after which groups without events are fetched as well, because commits have no events."""
_LAST_EVENTS: Final = 5
_OTHER_ROWS: Final = 5 + _LAST_EVENTS


class LiveBoard:
    """The live board. A thread reads the events; the thread of the caller fetches the groups and draws the
    board."""

    def __init__(self, client: ApiClient, console: Console) -> None:
        self._client = client
        self._console = console
        self._board = GroupBoard(client)
        self._lock = Lock()
        self._changed: set[str] = set()
        self._events: deque[FollowedEvent] = deque(maxlen=_LAST_EVENTS)
        self._refresh_signal = Signal()
        self._error_text = ""
        self._shown: list[GroupWithOffsets] = []

    def run(self) -> None:
        """Update the board until an interrupt. Raises ServerUnreachable, DaemonError if the first fetch fails."""
        self._fetch_groups()
        Thread(target=self._follow_events, daemon=True).start()
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            refreshes = 0
            while True:
                live.update(self._render(), refresh=True)
                self._refresh_signal.wait(_MAX_REFRESH_S)
                Signal().wait(_MIN_REFRESH_S)
                self._refresh_signal.clear()
                refreshes += 1
                self._refresh(is_all=refreshes % _REFRESHES_UNTIL_ALL == 0)

    def _refresh(self, *, is_all: bool) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
        self._board.forget_groups(changed)
        if is_all:
            self._board.forget_groups([summary.group_id for summary in self._board.summaries])
        try:
            self._fetch_groups()
            self._error_text = ""
        except (ServerUnreachable, DaemonError) as error:
            self._error_text = str(error).split(". ")[0]

    def _fetch_groups(self) -> None:
        self._shown = self._board.fetch_groups(max(1, self._console.height - _OTHER_ROWS))

    def _follow_events(self) -> None:
        try:
            for event in EventFollower(self._client, on_status_change=lambda _: self._refresh_signal.set()):
                with self._lock:
                    self._changed.add(str(event.value.get("group_id")))
                    if event.kind != "gap":
                        self._events.append(event)
                self._refresh_signal.set()
        except (ServerUnreachable, DaemonError):
            self._refresh_signal.set()  # the board is then redrawn at intervals

    def _render(self) -> Group:
        rows: list[RenderableType] = [
            self._render_heading(),
            Text(),
            self._render_table(),
        ]
        left_out = len(self._board.summaries) - len(self._shown)
        if left_out > 0:
            rows.append(Text(f"and {left_out} more", "dim"))
        with self._lock:
            events = list(self._events)
        rows += [Text(), *map(_render_event, events)]
        return Group(*rows)

    def _render_table(self) -> RenderableType:
        return create_terminal_table(
            COLUMNS, [format_board_row(group) for group in self._shown], self._console.width
        )

    def _render_heading(self) -> Text:
        heading = Text(no_wrap=True, overflow="ellipsis")
        heading.append("groupd ", "bold").append(
            f"{self._client.url}  {format_time_of_day(clock.wall_ms())[:8]}  "
        )
        if self._error_text:
            return heading.append(self._error_text, "red")
        counts = Counter(summary.state for summary in self._board.summaries)
        heading.append(format_count(counts.total(), "group"))
        for state, count in sorted(counts.items()):
            heading.append("  ").append(f"{count} {state}", state_style(state))
        return heading


def _render_event(event: FollowedEvent) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for text, style in format_event(event.kind, event.value, with_group=True, is_aligned=True):
        line.append(f"{text}  ", style)
    return line
