"""How far the reading of logs has come, for whoever waits for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from coordinator.cli.output_streams import Output
from storage.files import OsFiles
from storage.inspection.log_reader import LogListing


class ReadProgress(Protocol):
    """Follows what is read by way of `files`."""

    @property
    def files(self) -> OsFiles:
        """The files to read from."""

    def hide(self) -> None:
        """Makes place for something that is printed."""

    def show_note(self, text: str) -> None:
        """What else is to be told, in a few words; replaces what was told before."""


class HiddenProgress:
    """A `ReadProgress` that nobody looks at."""

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
    """Shows how far the reading of these logs has come, where somebody can see it. Nothing of it stays."""
    if not (is_wanted and output.shows_progress):
        yield HiddenProgress()
        return
    from coordinator.cli.log.progress_bar import ProgressBar

    bar = ProgressBar(logs, is_colored=output.is_colored)
    try:
        yield bar
    finally:
        bar.close()
