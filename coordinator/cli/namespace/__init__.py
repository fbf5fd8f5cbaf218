"""`groupd namespace`: brokers beside the daemon's own. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "add": "Make a namespace.",
    "advertise": "Say what clients are told to connect to.",
    "list": "List namespaces, with where clients connect.",
    "reset": "Have a namespace be as it was when it was made.",
    "rm": "Remove namespaces.",
}
"""By name, with the first line of their help."""


@click.group(
    cls=DefaultSubcommand, default="list", package="coordinator.cli.namespace", described=SUBCOMMANDS
)
def command() -> None:
    """Whole brokers in the process of the daemon, each on its own port, with files in memory, for a test each.
    `groupd namespace` alone lists them.

    Commands that ask a daemon take --namespace NAME, and are then about that broker.
    """
