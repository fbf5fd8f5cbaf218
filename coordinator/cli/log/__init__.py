"""`groupd log`: what the logs on disk say, for people. Each subcommand is a module of its own."""

import sys
from typing import Any, Final

import click

from coordinator.cli.standard_streams import do_without_standard_error, end_interrupted, is_closed
from coordinator.cli.subcommands import Subcommands

SUBCOMMANDS: Final = {
    "dump": "Print the records of a log.",
    "recover": "Put what a journal has into the logs.",
    "repair": "Copy what can be read of a damaged log.",
    "stats": "Say what a log is made of.",
    "verify": "Check a log, and say what is wrong with it.",
}
"""By name, with the first line of their help."""


class _LogCommands(Subcommands):
    def invoke(self, ctx: click.Context) -> Any:
        do_without_standard_error()
        if is_closed(sys.stdout):
            from coordinator.cli.log.paths import fail

            fail("standard output: is closed")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            end_interrupted()


@click.group(cls=_LogCommands, package="coordinator.cli.log", described=SUBCOMMANDS)
def command() -> None:
    """Read, check and repair logs on disk, those of groupd and of a Kafka broker.

    A PATH is a segment (a .log file), the directory of a partition, or a whole data directory. Nothing is
    changed, except by `recover` and `repair`; a daemon may go on writing.
    """
