"""A progress line on a terminal, below the output, with the part of the logs that has been read.

The reading code draws it a few times a second. So no thread writes between lines of the output. The cursor stays
visible, because a killed process could not show it again.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.control import Control
from rich.filesize import decimal
from rich.progress_bar import ProgressBar as Bar
from rich.segment import ControlType
from rich.text import Text

from coordinator.core.clock import monotonic_ms
from coordinator.core.message_text import printable
from storage.files import OsFile, OsFiles
from storage.inspection.log_reader import LogListing

_DELAY_MS: Final = 300
"""The duration in milliseconds before the first display. Shorter reads have no progress line."""
_PERIOD_MS: Final = 100
_BAR_CELLS: Final = 20
_ERASE: Final = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))

PositionCallback = Callable[[str, int], None]


class _WatchedFile(OsFile):
    __slots__ = ("_on_position",)

    def __init__(self, path: str, on_position: PositionCallback) -> None:
        super().__init__(path, os.O_RDONLY)
        self._on_position = on_position

    def pread(self, length: int, position: int) -> bytes:
        self._on_position(self.path, position)
        return super().pread(length, position)


class _WatchedFiles(OsFiles):
    def __init__(self, on_position: PositionCallback) -> None:
        self._on_position = on_position

    def open_read(self, path: str) -> OsFile:
        return _WatchedFile(path, self._on_position)


class ProgressBar:
    """A `ReadProgress` on standard error."""

    def __init__(self, logs: Sequence[LogListing], *, is_colored: bool) -> None:
        self.files: OsFiles = _WatchedFiles(self._on_position)
        self._console = Console(
            stderr=True, force_terminal=True, color_system="standard" if is_colored else None, highlight=False
        )
        self._starts: dict[str, int] = {}
        self._total = 0
        for log in logs:
            for segment in log.segments:
                self._starts[segment.path] = self._total
                self._total += self._find_size(segment.path)
        self._done = 0
        self._note = ""
        self._is_shown = False
        self._is_closed = False
        self._due_ms = monotonic_ms() + _DELAY_MS

    def show_note(self, text: str) -> None:
        self._note = text

    def hide(self) -> None:
        if self._is_shown:
            self._console.control(_ERASE)
            self._is_shown = False

    def close(self) -> None:
        """Remove the line, and do not draw it again."""
        self.hide()
        self._is_closed = True

    def _find_size(self, path: str) -> int:
        try:
            return self.files.size(path)
        except FileNotFoundError:
            return 0  # deleted by retention or compaction

    def _on_position(self, path: str, position: int) -> None:
        """Record that the bytes before this position of a segment are done."""
        start = self._starts.get(path)
        if start is None or self._is_closed:
            return
        self._done = max(self._done, min(start + position, self._total))
        now_ms = monotonic_ms()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + _PERIOD_MS
            self._draw(path)

    def _draw(self, path: str) -> None:
        console = self._console
        parts = [
            f" {decimal(self._done)} of {decimal(self._total)}",
            printable("/".join(path.split("/")[-2:])),
        ]
        if self._note:
            parts.insert(1, self._note)
        bar_cells = min(_BAR_CELLS, console.width // 3)
        bar = Bar(self._total, self._done, width=bar_cells, complete_style="cyan")
        text = Text(", ".join(parts), no_wrap=True)
        text.truncate(console.width - bar_cells - 1, overflow="ellipsis")
        self._is_shown = True  # set first, so that `hide` also removes a line that an interrupt cuts off
        with console:
            console.control(_ERASE)
            console.print(bar, end="")
            console.print(text, end="")
