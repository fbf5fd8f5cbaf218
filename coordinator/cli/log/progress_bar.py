"""A line on a terminal, behind everything that is printed, that says how much of the logs has been read.

It is drawn from within the reading, a few times a second: no thread writes beside what is printed, and no cursor is
hidden, which a process that is killed would leave hidden.
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

from coordinator.clock import monotonic_ms
from coordinator.net.peer import printable
from storage.files import OsFile, OsFiles
from storage.inspection.directory_reader import LogFiles

_DELAY_MS: Final = 300
"""What is done sooner is not worth a bar."""
_PERIOD_MS: Final = 100
_BAR_CELLS: Final = 20
_ERASE: Final = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))

Reached = Callable[[str, int], None]


class _WatchedFile(OsFile):
    __slots__ = ("_reached",)

    def __init__(self, path: str, reached: Reached) -> None:
        super().__init__(path, os.O_RDONLY)
        self._reached = reached

    def pread(self, length: int, position: int) -> bytes:
        self._reached(self.path, position)
        return super().pread(length, position)


class _WatchedFiles(OsFiles):
    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def open_read(self, path: str) -> OsFile:
        return _WatchedFile(path, self._reached)


class ProgressBar:
    """A `Progress` on standard error."""

    def __init__(self, logs: Sequence[LogFiles], *, is_colored: bool) -> None:
        self.files: OsFiles = _WatchedFiles(self._reached)
        self._console = Console(
            stderr=True, force_terminal=True, color_system="standard" if is_colored else None, highlight=False
        )
        self._starts: dict[str, int] = {}
        self._total = 0
        for log in logs:
            for segment in log.segments:
                self._starts[segment.path] = self._total
                self._total += self._size(segment.path)
        self._done = 0
        self._note = ""
        self._is_shown = False
        self._is_closed = False
        self._due_ms = monotonic_ms() + _DELAY_MS

    def note(self, text: str) -> None:
        self._note = text

    def hide(self) -> None:
        if self._is_shown:
            self._console.control(_ERASE)
            self._is_shown = False

    def close(self) -> None:
        """Takes the line away for good."""
        self.hide()
        self._is_closed = True

    def _size(self, path: str) -> int:
        try:
            return self.files.size(path)
        except FileNotFoundError:
            return 0  # taken by retention or compaction meanwhile

    def _reached(self, path: str, position: int) -> None:
        """Everything before this byte of a segment has been looked at."""
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
        told = [
            f" {decimal(self._done)} of {decimal(self._total)}",
            printable("/".join(path.split("/")[-2:])),
        ]
        if self._note:
            told.insert(1, self._note)
        bar_cells = min(_BAR_CELLS, console.width // 3)
        bar = Bar(self._total, self._done, width=bar_cells, complete_style="cyan")
        text = Text(", ".join(told), no_wrap=True)
        text.truncate(console.width - bar_cells - 1, overflow="ellipsis")
        self._is_shown = (
            True  # before it is: an interrupt may come in between, and then it has to be taken away
        )
        with console:
            console.control(_ERASE)
            console.print(bar, end="")
            console.print(text, end="")
