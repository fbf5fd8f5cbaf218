"""What commands say of a journal that has more than the logs they read."""

import os
from collections.abc import Sequence

from coordinator.cli.log.paths import fail
from coordinator.cli.standard_streams import warn
from storage.files import Files
from storage.inspection.directory_reader import LogFiles
from storage.inspection.journal_check import JournalCheck


def warn_of_journals(files: Files, logs: Sequence[LogFiles]) -> None:
    """A line for each data directory whose journal has what these logs lack, or cannot be read."""
    check = JournalCheck(files, logs)
    for directory, text in _lacking(check).items():
        warn(f"{text}; `groupd log recover {directory}` puts that in")
    _warn_of_damage(check)


def refuse_lacking(files: Files, logs: Sequence[LogFiles]) -> None:
    """Ends the command where logs lack what the journal can give back: that is not lost."""
    check = JournalCheck(files, logs)
    recoverable = {path: lack for path, lack in check.lacks.items() if lack.gap_at is None}
    check.lacks = recoverable
    for directory, text in _lacking(check).items():
        fail(f"{text}: run `groupd log recover {directory}` first")
    _warn_of_damage(check)


def _lacking(check: JournalCheck) -> dict[str, str]:
    by_directory: dict[str, list[str]] = {}
    for path, lack in check.lacks.items():
        name = f"{os.path.basename(path)} (offsets {lack.offset} to {lack.end_offset - 1})"
        by_directory.setdefault(os.path.dirname(path), []).append(name)
    return {directory: _text(directory, names) for directory, names in by_directory.items()}


def _text(directory: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more logs" if len(names) > 1 else ""
    return f"{directory}: its journal has what is missing in {names[0]}{more}"


def _warn_of_damage(check: JournalCheck) -> None:
    for error in check.damaged.values():
        warn(f"the journal is damaged, and may have what the logs lack: {error}")
