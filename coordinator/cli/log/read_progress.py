"""The progress of reading logs, and its display."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from coordinator.cli.output_streams import Output
from storage.files import OsFiles
from storage.inspection.log_reader import LogListing


class ReadProgress(Protocol):
    """The progress of reading logs through `files`."""

    @property
    def files(self) -> OsFiles:
        """The files to read from."""

    def hide(self) -> None:
        """Remove the progress line before other output."""

    def show_note(self, text: str) -> None:
        """Show a short note beside the progress. It replaces the previous note."""


class HiddenProgress:
    """A `ReadProgress` without a display."""

    def __init__(self) -> None:
        self.files = OsFiles()

    def hide(self) -> None:
        pass

    def show_note(self, text: str) -> None:
        pass


@contextmanager
def show_progress(
    output: Output, logs: Sequence[LogListing], *, is_wanted: bool = True
) -> Iterator[ReadProgress]:
    """Show the progress of reading these logs if the output is a terminal. Remove it at the end."""
    if not (is_wanted and output.shows_progress):
        yield HiddenProgress()
        return
    from coordinator.cli.log.progress_bar import ProgressBar

    bar = ProgressBar(logs, is_colored=output.is_colored)
    try:
        yield bar
    finally:
        bar.close()
