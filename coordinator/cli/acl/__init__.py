"""`groupd acl`: the ACLs of a groupd, or of any Kafka cluster. Each subcommand is a module of its own."""

from typing import Final

import click

from coordinator.cli.control.default_subcommand import DefaultSubcommand

SUBCOMMANDS: Final = {
    "add": "Allow or deny somebody something.",
    "list": "List ACLs.",
    "remove": "Remove ACLs.",
}
"""By name, with the first line of their help."""


@click.group(cls=DefaultSubcommand, default="list", package="coordinator.cli.acl", described=SUBCOMMANDS)
def command() -> None:
    """List, add and remove ACLs, as kafka-acls does; `groupd acl` alone lists them.

    Where a daemon runs it is asked, or any Kafka broker; with --data-dir a stopped daemon's directory is changed.
    """
