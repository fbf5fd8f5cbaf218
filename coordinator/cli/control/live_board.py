"""The board on a terminal, drawn anew when something happens."""

from collections import Counter, deque
from threading import Event as Signal
from threading import Lock, Thread
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from coordinator import clock
from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.board import COLUMNS, Board, BoardGroup, board_row
from coordinator.cli.control.event_line import event_parts
from coordinator.cli.control.failure import Refused, Unreachable
from coordinator.cli.control.following import Following, Happened
from coordinator.cli.control.states import state_style
from coordinator.cli.control.terminal_table import terminal_table
from coordinator.cli.times import time_of_day

_LEAST_S: Final = 0.25
"""Between two looks, however much happens."""
_LONGEST_S: Final = 2.0
"""Between two looks, when nothing does: durations go on."""
_LOOKS_UNTIL_ALL: Final = 3
"""After so many, what seems not to have changed is looked at as well: commits are no events."""
_LAST_EVENTS: Final = 5
_OTHER_ROWS: Final = 5 + _LAST_EVENTS


class LiveBoard:
    """See the top of this file. Events are read in a thread; asking and drawing is done in that of the caller."""

    def __init__(self, client: ApiClient, console: Console) -> None:
        self._client = client
        self._console = console
        self._board = Board(client)
        self._lock = Lock()
        self._changed: set[str] = set()
        self._events: deque[Happened] = deque(maxlen=_LAST_EVENTS)
        self._something = Signal()
        self._trouble = ""
        self._shown: list[BoardGroup] = []

    def run(self) -> None:
        """Goes on until it is interrupted. Raises Unreachable, Refused if there is nothing to begin with."""
        self._look()
        Thread(target=self._follow, daemon=True).start()
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            looks = 0
            while True:
                live.update(self._picture(), refresh=True)
                self._something.wait(_LONGEST_S)
                Signal().wait(_LEAST_S)
                self._something.clear()
                looks += 1
                self._look_again(is_all=looks % _LOOKS_UNTIL_ALL == 0)

    def _look_again(self, *, is_all: bool) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
        self._board.forget(changed)
        if is_all:
            self._board.forget([summary.group_id for summary in self._board.summaries])
        try:
            self._look()
            self._trouble = ""
        except (Unreachable, Refused) as error:
            self._trouble = str(error).split(". ")[0]

    def _look(self) -> None:
        self._shown = self._board.look(max(1, self._console.height - _OTHER_ROWS))

    def _follow(self) -> None:
        try:
            for happened in Following(self._client, say=lambda _: self._something.set()):
                with self._lock:
                    self._changed.add(str(happened.value.get("group_id")))
                    if happened.kind != "gap":
                        self._events.append(happened)
                self._something.set()
        except (Unreachable, Refused):
            self._something.set()  # then it is drawn anew by time

    def _picture(self) -> Group:
        rows: list[RenderableType] = [
            self._heading(),
            Text(),
            self._table(),
        ]
        left_out = len(self._board.summaries) - len(self._shown)
        if left_out > 0:
            rows.append(Text(f"and {left_out} more", "dim"))
        with self._lock:
            events = list(self._events)
        rows += [Text(), *map(_event, events)]
        return Group(*rows)

    def _table(self) -> RenderableType:
        return terminal_table(COLUMNS, [board_row(group) for group in self._shown], self._console.width)

    def _heading(self) -> Text:
        heading = Text(no_wrap=True, overflow="ellipsis")
        heading.append("groupd ", "bold").append(f"{self._client.url}  {time_of_day(clock.wall_ms())[:8]}  ")
        if self._trouble:
            return heading.append(self._trouble, "red")
        counts = Counter(summary.state for summary in self._board.summaries)
        heading.append(f"{counts.total()} group{'' if counts.total() == 1 else 's'}")
        for state, count in sorted(counts.items()):
            heading.append("  ").append(f"{count} {state}", state_style(state))
        return heading


def _event(happened: Happened) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for text, style in event_parts(happened.kind, happened.value, with_group=True, is_aligned=True):
        line.append(f"{text}  ", style)
    return line
