"""Standard output and standard error of a command: terminal or pipe, the option --color, closed streams, and
exit codes after an interrupt or a closed pipe.
"""

import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from threading import Thread
from typing import Any, Final, NoReturn, TextIO

import click

from coordinator.core.message_text import printable

EXIT_INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""

_MAX_LINE: Final = 1000


def is_closed(stream: TextIO | None) -> bool:
    """Return whether Python has no stream because the descriptor was closed at the start (`>&-`)."""
    return stream is None


def replace_closed_stderr() -> None:
    """Discard the output to standard error if it is closed."""
    if is_closed(sys.stderr):
        sys.stderr = StringIO()


@contextmanager
def guard_output() -> Iterator[None]:
    """Flush standard output at the end of the block.

    If the reader closed the output, exit with 0 and without a message. Characters that the encoding of the output
    lacks are written as escapes.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = StringIO()  # it is flushed once more at the end of the process
        sys.exit(0)


def exit_when_reader_closes() -> None:
    """Exit with 0 and without a message when the reader of a pipe closes it.

    A command that waits for events would notice the closed pipe only with its next line.
    """
    # Only Linux reports a closed reader to a process that does not write.
    output = sys.__stdout__
    if sys.platform != "linux" or output is None or sys.stdout is not output:
        return
    if stat.S_ISFIFO(os.fstat(output.fileno()).st_mode):
        Thread(target=_wait_for_reader_close, args=(output.fileno(),), daemon=True).start()


def _wait_for_reader_close(descriptor: int) -> None:
    output = select.poll()
    output.register(descriptor, 0)  # poll always reports a closed reader
    output.poll()
    # The main thread waits for the daemon, and has no output left to write.
    os._exit(0)


def warn(text: str) -> None:
    """Print one line on standard error, for any text."""
    click.echo(f"{click.style('groupd:', fg='red')} {printable(text, _MAX_LINE)}", err=True)


def exit_interrupted(code: int = EXIT_INTERRUPTED) -> NoReturn:
    """Exit without a message. After a second interrupt, do not wait for the rest of the output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = StringIO()  # it is flushed once more at the end of the process
    sys.exit(code)


AUTO: Final = "auto"
ALWAYS: Final = "always"
NEVER: Final = "never"

_PLAIN_TERMINALS: Final = ("dumb", "unknown")


@dataclass(frozen=True, slots=True)
class Output:
    """The output settings of a command."""

    is_terminal: bool
    """Standard output is a terminal. Lines are laid out for its width, and very long ones are cut."""
    is_colored: bool
    shows_progress: bool
    """Standard error is a terminal, and no pager at the end of a pipe can use that terminal."""

    @property
    def is_for_people(self) -> bool:
        """Whether figures are best shown in tables: on a terminal, or in colours for a pager."""
        return self.is_terminal or self.is_colored


def _detect_output(color: str) -> tuple[Output, bool]:
    """Return the settings for the actual output, and whether a terminal may have colours at all."""
    can_do_more_than_print = os.environ.get("TERM", "").lower() not in _PLAIN_TERMINALS
    has_colors = can_do_more_than_print and not os.environ.get("NO_COLOR")
    may_color = color == ALWAYS or (color == AUTO and has_colors)
    is_terminal = can_do_more_than_print and sys.stdout.isatty()
    is_colored = may_color and (is_terminal or color == ALWAYS)
    shows_progress = can_do_more_than_print and sys.stderr.isatty() and not _is_piped()
    return Output(is_terminal, is_colored, shows_progress), may_color


def _is_piped() -> bool:
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _parse_color(context: click.Context, _: click.Parameter, color: str) -> Output:
    output, may_color = _detect_output(color)
    if not may_color:
        context.color = False  # also for the output of click, such as errors
    return output


_COLOR_NAMES: Final = ("--color", "output")
_COLOR_OPTION: Final[Mapping[str, Any]] = {
    "type": click.Choice([AUTO, ALWAYS, NEVER]),
    "default": AUTO,
    "show_default": True,
    "callback": _parse_color,
    "help": "Whether to use colours. By default only on a terminal without NO_COLOR.",
}


def color_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --color, which is passed as `output`.

    By default a terminal has colours unless NO_COLOR is set (https://no-color.org).
    """
    return click.option(*_COLOR_NAMES, **_COLOR_OPTION)(command)


def color_parameter() -> click.Option:
    """Create the option --color for a command that is built without decorators."""
    return click.Option(_COLOR_NAMES, **_COLOR_OPTION)
