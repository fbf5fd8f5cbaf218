"""`groupd groups`: the groups of a running daemon. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "delete": "Delete a group that has no members.",
    "describe": "Show a group: members, assignments, offsets, lag.",
    "list": "List groups.",
    "reset": "Set the committed offsets of a group that has no members.",
}
"""By name, with the first line of their help."""


@click.group(cls=DefaultSubcommand, default="list", package="coordinator.cli.groups", described=SUBCOMMANDS)
def command() -> None:
    """List, describe, reset and delete groups; `groupd groups` alone lists them."""
