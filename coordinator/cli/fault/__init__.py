"""`groupd fault`: failures on purpose. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "add": "Make a fault.",
    "list": "List faults, with how often they hit.",
    "release": "Let go of what a fault holds.",
    "rm": "Remove faults.",
    "show": "Show a fault.",
    "wait": "Wait until a fault has hit.",
}
"""By name, with the first line of their help."""


@click.group(cls=DefaultSubcommand, default="list", package="coordinator.cli.fault", described=SUBCOMMANDS)
def command() -> None:
    """Make requests of groups fail, hang or vanish, by the state of the group; `groupd fault` alone lists faults.

    A fault is there until it has acted as often as it should, its time is over, or it is removed.
    """
