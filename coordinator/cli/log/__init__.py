"""`groupd log`: what the logs on disk say, for people. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.subcommands import Subcommands

SUBCOMMANDS: Final = {
    "dump": "Print the records of a log.",
    "repair": "Copy what can be read of a damaged log.",
    "stats": "Say what a log is made of.",
    "verify": "Check a log, and say what is wrong with it.",
}
"""By name, with the first line of their help."""


@click.group(cls=Subcommands, package="coordinator.cli.log", described=SUBCOMMANDS)
def command() -> None:
    """Read, check and repair logs on disk, those of groupd and of a Kafka broker.

    A PATH is a segment (a .log file), the directory of a partition, or a whole data directory. Nothing is
    changed, except by `repair`; a daemon may go on writing.
    """
