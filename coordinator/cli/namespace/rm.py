"""`groupd namespace rm`."""

import click

from coordinator.cli.control.answers import removable_names
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused

EPILOG = """Examples:

\b
groupd namespace rm test-1
groupd namespace rm --all"""


@daemon_command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "is_all", is_flag=True, help="All but the daemon's own.")
def command(asking: Asking, names: tuple[str, ...], is_all: bool) -> int:
    """Remove the brokers of these NAMEs with all that they have."""
    if is_all == bool(names):
        raise Misused("say which: a NAME, or --all")
    if "" in names:
        raise Misused("the empty name is none that can be asked for")
    if is_all:
        names = tuple(removable_names(asking.client.get("namespaces")))
    for name in names:
        asking.client.ask("DELETE", "namespaces", name)
    return YES
