"""From the paths on a command line to logs, and from what may go wrong on the way to a line for a person."""

import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from threading import Event
from typing import Final, NoReturn, ParamSpec

from coordinator.cli.log.entry import OFFSETS_TOPIC
from coordinator.cli.standard_streams import taking_output, warn
from storage.errors import FileError
from storage.files import Files
from storage.inspection.directory_reader import LogFiles, find_logs
from storage.os_error import reason_of

SOUND: Final = 0
FOUND: Final = 1
"""Something is wrong with a log."""
BAD_INPUT: Final = 2

_PAUSE_S: Final = 0.02

P = ParamSpec("P")


def logs_at(files: Files, paths: Sequence[str]) -> list[LogFiles]:
    """The logs at all paths. Raises FileError, OSError."""
    logs: list[LogFiles] = []
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


def holds_offsets(log: LogFiles) -> bool:
    """Whether a log is one of committed offsets and groups."""
    return log.name is not None and log.name.topic == OFFSETS_TOPIC


def pause() -> None:
    """Gives whoever writes a log the time to finish a batch."""
    Event().wait(_PAUSE_S)


def fail(text: str) -> NoReturn:
    """Ends the command: the input is not what it should be."""
    warn(text)
    sys.exit(BAD_INPUT)


def in_words(run: Callable[P, int]) -> Callable[P, None]:
    """Makes a command of a function that gives the exit code: errors become one line and exit code 2.

    A reader of the output that has had enough ends the command without a word. What the encoding of the output
    lacks is written in escapes.
    """

    @wraps(run)
    def command(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            with taking_output():
                code = run(*arguments, **named)
        except FileError as error:
            fail(str(error))
        except OSError as error:
            where = "" if error.filename else "standard output: "
            fail(f"{where}{reason_of(error)}")
        sys.exit(code)

    return command
