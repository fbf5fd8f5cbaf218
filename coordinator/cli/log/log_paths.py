"""Finds logs at the paths of a command line, compares them with their journal, and turns errors into a line
and an exit code.
"""

import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from threading import Event
from typing import Final, NoReturn, ParamSpec

from coordinator.cli.log.decoded_record import OFFSETS_TOPIC
from coordinator.cli.output_streams import guard_output, warn
from storage.files import Files
from storage.inspection.journal_check import JournalCheck
from storage.inspection.log_reader import LogListing, find_logs
from storage.storage_errors import FileError, format_error_reason

SOUND: Final = 0
FOUND: Final = 1
"""The exit code for a problem in a log."""
BAD_INPUT: Final = 2

_PAUSE_S: Final = 0.02

P = ParamSpec("P")


def find_logs_at(files: Files, paths: Sequence[str]) -> list[LogListing]:
    """Return the logs at all paths. Raises FileError, OSError."""
    logs: list[LogListing] = []
    for path in paths:
        absolute = os.path.abspath(path)
        try:
            mode = os.stat(absolute).st_mode
        except FileNotFoundError:
            raise FileError(absolute, "does not exist") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise FileError(absolute, "is neither a file nor a directory")
        logs += find_logs(files, absolute)
    return logs


def holds_offsets(log: LogListing) -> bool:
    """Return whether a log belongs to `__consumer_offsets`."""
    return log.name is not None and log.name.topic == OFFSETS_TOPIC


def wait_for_writer() -> None:
    """Wait for a time in which the writer of a log can finish a batch."""
    Event().wait(_PAUSE_S)


def exit_with_error(text: str) -> NoReturn:
    """Print an error and exit with the code for invalid input."""
    warn(text)
    sys.exit(BAD_INPUT)


def report_errors(run: Callable[P, int]) -> Callable[P, None]:
    """Make a command of a function that returns the exit code. Errors become one line and exit code 2.

    If the reader of the output closes it, the command ends without a message. Characters that the encoding of the
    output lacks are written as escapes.
    """

    @wraps(run)
    def command(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            with guard_output():
                code = run(*arguments, **named)
        except FileError as error:
            exit_with_error(str(error))
        except OSError as error:
            where = "" if error.filename else "standard output: "
            exit_with_error(f"{where}{format_error_reason(error)}")
        sys.exit(code)

    return command


def warn_of_journals(files: Files, logs: Sequence[LogListing]) -> None:
    """Print a warning for each data directory with a journal that is damaged or has records that these logs
    lack."""
    check = JournalCheck(files, logs)
    for directory, text in _describe_lacks(check).items():
        warn(f"{text}; `groupd log recover {directory}` writes them to the logs")
    _warn_of_damage(check)


def check_journals(files: Files, logs: Sequence[LogListing]) -> None:
    """End the command if logs lack records that the journal has, so that none is lost."""
    check = JournalCheck(files, logs)
    recoverable = {path: lack for path, lack in check.missing_tails.items() if lack.gap_end_offset is None}
    check.missing_tails = recoverable
    for directory, text in _describe_lacks(check).items():
        exit_with_error(f"{text}: run `groupd log recover {directory}` first")
    _warn_of_damage(check)


def _describe_lacks(check: JournalCheck) -> dict[str, str]:
    by_directory: dict[str, list[str]] = {}
    for path, lack in check.missing_tails.items():
        name = f"{os.path.basename(path)} (offsets {lack.offset} to {lack.end_offset - 1})"
        by_directory.setdefault(os.path.dirname(path), []).append(name)
    return {directory: _format_lack(directory, names) for directory, names in by_directory.items()}


def _format_lack(directory: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more logs" if len(names) > 1 else ""
    return f"{directory}: its journal has records that are missing in {names[0]}{more}"


def _warn_of_damage(check: JournalCheck) -> None:
    for error in check.damaged_journals.values():
        warn(f"the journal is damaged, and may have records that the logs lack: {error}")
