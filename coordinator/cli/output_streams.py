"""Standard output and standard error as commands find them, and how a command ends when they do."""

import os
import select
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from threading import Thread
from typing import Final, NoReturn, TextIO

import click

from coordinator.net.peer import printable

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""

_MAX_LINE: Final = 1000


def is_closed(stream: TextIO | None) -> bool:
    """Python has none where the descriptor was closed before it started (`>&-`)."""
    return stream is None


def do_without_standard_error() -> None:
    """What would be said there, where it is closed, is said to nobody."""
    if is_closed(sys.stderr):
        sys.stderr = StringIO()


@contextmanager
def taking_output() -> Iterator[None]:
    """What is printed within is flushed at its end. A reader of the output that has had enough ends the command
    with exit code 0 and without a word. What the encoding of the output lacks is written in escapes."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = StringIO()  # it is flushed once more at the end of the process
        sys.exit(0)


def end_when_nobody_reads() -> None:
    """A command that waits for what happens ends, with exit code 0 and without a word, as soon as whoever reads its
    output through a pipe has had enough; otherwise it would learn so with its next line."""
    # Only Linux says so to whoever does not write.
    output = sys.__stdout__
    if sys.platform != "linux" or output is None or sys.stdout is not output:
        return
    if stat.S_ISFIFO(os.fstat(output.fileno()).st_mode):
        Thread(target=_end_with_reader, args=(output.fileno(),), daemon=True).start()


def _end_with_reader(descriptor: int) -> None:
    output = select.poll()
    output.register(descriptor, 0)  # that it has no reader is told whatever is asked
    output.poll()
    # The command waits for the daemon, and nothing of it is left to be written.
    os._exit(0)


def warn(text: str) -> None:
    """One line on standard error, whatever the text holds."""
    click.echo(f"{click.style('groupd:', fg='red')} {printable(text, _MAX_LINE)}", err=True)


def end_interrupted(code: int = INTERRUPTED) -> NoReturn:
    """Ends without a word. Interrupted once more, it does not wait until the rest of the output is taken."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = StringIO()  # it is flushed once more at the end of the process
    sys.exit(code)
