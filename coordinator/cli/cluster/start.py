"""`groupd cluster start`."""

import click

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd cluster start 2")
@click.argument("node_id", type=click.IntRange(0, 2**31 - 1), metavar="ID")
def command(asking: Asking, node_id: int) -> int:
    """Start broker ID again, on the ports that it had."""
    answer(asking, "POST", "cluster", "brokers", str(node_id), "start")
    return YES
