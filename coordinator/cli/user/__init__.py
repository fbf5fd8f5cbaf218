"""`groupd user`: who can log in by SCRAM, of a groupd or any Kafka cluster. A subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "add": "Give a user a password for SCRAM.",
    "list": "List the users that have one.",
    "remove": "Take it away.",
}
"""By name, with the first line of their help."""


@click.group(cls=DefaultSubcommand, default="list", package="coordinator.cli.user", described=SUBCOMMANDS)
def command() -> None:
    """Add, list and remove users of SCRAM; `groupd user` alone lists them.

    Where a daemon runs it is asked, or any Kafka broker; with --data-dir a stopped daemon's directory is changed.
    """
