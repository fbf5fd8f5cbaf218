"""`groupd cluster`: several brokers, in one process or on etcd. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "import": "Make a cluster on etcd of what a data directory has.",
    "move": "Have another broker coordinate a group, or own a partition.",
    "start": "Start a broker of the daemon's process again.",
    "status": "List brokers, and which of them owns which partition.",
    "stop": "Stop a broker of the daemon's process.",
}
"""By name, with the first line of their help."""


@click.group(
    cls=DefaultSubcommand, default="status", package="coordinator.cli.cluster", described=SUBCOMMANDS
)
def command() -> None:
    """The brokers of a daemon that was started with `groupd serve --brokers N`, or of its cluster on etcd.
    `groupd cluster` lists them."""
