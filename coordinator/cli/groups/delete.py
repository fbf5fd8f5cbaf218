"""`groupd groups delete`."""

import click

from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.net.peer import printable


@daemon_command(epilog="Example: groupd groups delete billing")
@group_argument()
def command(asking: Asking, group: str) -> int:
    """Delete GROUP and its offsets. It must have no members."""
    asking.client.ask("DELETE", "groups", group)
    if not asking.is_json:
        click.echo(f"{printable(group)} is deleted")
    return YES
