"""How far the reading of logs has come, for whoever waits for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from coordinator.cli.output import Output
from storage.files import OsFiles
from storage.inspection.directory_reader import LogFiles


class Progress(Protocol):
    """Follows what is read by way of `files`."""

    @property
    def files(self) -> OsFiles:
        """The files to read from."""

    def hide(self) -> None:
        """Makes place for something that is printed."""

    def note(self, text: str) -> None:
        """What else is to be told, in a few words; replaces what was told before."""


class Silence:
    """A `Progress` that nobody looks at."""

    def __init__(self) -> None:
        self.files = OsFiles()

    def hide(self) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@contextmanager
def progress_of(output: Output, logs: Sequence[LogFiles], *, is_wanted: bool = True) -> Iterator[Progress]:
    """Shows how far the reading of these logs has come, where somebody can see it. Nothing of it stays."""
    if not (is_wanted and output.shows_progress):
        yield Silence()
        return
    from coordinator.cli.log.progress_bar import ProgressBar

    bar = ProgressBar(logs, is_colored=output.is_colored)
    try:
        yield bar
    finally:
        bar.close()
