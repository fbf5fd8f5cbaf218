"""`groupd log`: what the logs on disk say, for people. Each subcommand is a module of its own."""

import signal
import sys
from io import StringIO
from typing import Any, Final, NoReturn, TextIO

import click

from coordinator.cli.subcommands import Subcommands

SUBCOMMANDS: Final = {
    "dump": "Print the records of a log.",
    "recover": "Put what a journal has into the logs.",
    "repair": "Copy what can be read of a damaged log.",
    "stats": "Say what a log is made of.",
    "verify": "Check a log, and say what is wrong with it.",
}
"""By name, with the first line of their help."""

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""


class _LogCommands(Subcommands):
    def invoke(self, ctx: click.Context) -> Any:
        if _is_closed(sys.stderr):
            sys.stderr = StringIO()
        if _is_closed(sys.stdout):
            from coordinator.cli.log.paths import fail

            fail("standard output: is closed")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end_interrupted()


def _is_closed(stream: TextIO | None) -> bool:
    """Python has none where the descriptor was closed before it started (`>&-`)."""
    return stream is None


def _end_interrupted() -> NoReturn:
    """Ends without a word. Interrupted once more, it does not wait until the rest of the output is taken."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = StringIO()  # it is flushed once more at the end of the process
    sys.exit(INTERRUPTED)


@click.group(cls=_LogCommands, package="coordinator.cli.log", described=SUBCOMMANDS)
def command() -> None:
    """Read, check and repair logs on disk, those of groupd and of a Kafka broker.

    A PATH is a segment (a .log file), the directory of a partition, or a whole data directory. Nothing is
    changed, except by `recover` and `repair`; a daemon may go on writing.
    """
